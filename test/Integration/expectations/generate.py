#!/usr/bin/env python3
# ===- generate.py - Expectations of training runs from PyTorch --------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Trains small models with PyTorch in f64 and writes the expectations of tests.

    generate.py [CASE...]          (default: every case; needs PyTorch, transformers and peft)

Writes two kinds of files to the folder of this file. cases/CASE.json contains flags,
per-step loss, gradient norm and learning rate, evaluation losses, digests of the final
weights and, for cases with mixed precision, the errors of PyTorch's own.
gradients/MODEL.json contains digests of the gradients of the first step, before clipping.
Weights and tokens come from make_weights.py. Batches are read as in kiln: sequence j of step
s is sequence s * batch + j of the file, modulo the number of whole sequences in it.
"""

import dataclasses
import functools
import json
import math
import pathlib
import sys

import digest
import make_weights
import reference
import torch

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
BATCH, LENGTH, STEPS, VALIDATION_BATCHES = 4, 40, 20, 2
GRADIENT_SAMPLES, WEIGHT_SAMPLES = 64, 16
# Allowed error of small gradients, relative to the norm of all gradients.
# The scale of gradients in fp16, with which none of them overflows.
LOSS_SCALE = 1024.0
MIXED_FLOOR = 1e-3


@dataclasses.dataclass
class Case:
    model: str
    # Name and options in kiln's format. The default eps of 1e-8 would compare rounding noise:
    # the gradient of GPT-2's key bias consists of noise of that magnitude, and the update
    # divides one by the other.
    optimizer: str = "adamw:eps=1e-6,weight_decay=0.1"
    lr: float = 1e-3
    schedule: str = "constant"
    warmup: int = 0
    min_lr: float = 0.0
    clip: float = 1.0  # 0: the norm is reported, but nothing is scaled; -1: --clip=off.
    microbatches: tuple = (1,)  # All of these must give the same results.
    compare_weights: bool = True
    mixed: bool = False  # Tests also run the case in mixed precision.
    lora: str = ""  # Options of adapters in kiln's format; PEFT computes the case.


CASES = {
    "gpt2-adamw": Case("gpt2-awkward", microbatches=(1, 2, 4), mixed=True),
    "gpt2-adamw-defaults": Case("gpt2-awkward", optimizer="adamw", compare_weights=False),
    "gpt2-clip-small": Case("gpt2-awkward", clip=0.1, microbatches=(1, 2)),
    "gpt2-clip-zero": Case("gpt2-awkward", clip=0.0),
    "gpt2-clip-off": Case("gpt2-awkward", clip=-1.0, microbatches=(1, 2)),
    "gpt2-cosine": Case("gpt2-awkward", lr=3e-3, schedule="cosine", warmup=5, min_lr=3e-4),
    "gpt2-decay-all": Case(
        "gpt2-awkward", optimizer="adamw:eps=1e-6,weight_decay=0.5,decay=all"
    ),
    "gpt2-adam": Case("gpt2-awkward", optimizer="adam:eps=1e-6,weight_decay=0.01"),
    "gpt2-sgd": Case("gpt2-awkward", optimizer="sgd:weight_decay=0.01", lr=0.1),
    "gpt2-momentum": Case("gpt2-awkward", optimizer="momentum:momentum=0.9", lr=0.02),
    "gpt2-nesterov": Case(
        "gpt2-awkward", optimizer="nesterov:momentum=0.9,weight_decay=0.01", lr=0.02
    ),
    "gpt2-erf-inner": Case("gpt2-erf-inner", mixed=True),
    "llama-gqa": Case("llama-gqa", microbatches=(1, 2, 4), mixed=True),
    "llama-gqa-cosine": Case(
        "llama-gqa", lr=3e-3, schedule="cosine", warmup=5, min_lr=3e-4, clip=0.5
    ),
    "llama-gqa-sgd": Case("llama-gqa", optimizer="sgd", lr=0.1),
    "llama-tied-bias": Case("llama-tied-bias", microbatches=(1, 2), mixed=True),
    "llama-rope3": Case("llama-rope3", mixed=True),
    "gpt2-lora": Case("gpt2-awkward", lora="r=4,alpha=6,targets=c_attn:c_proj", microbatches=(1, 2)),
    "llama-lora": Case(
        "llama-gqa", lora="r=3,alpha=5,targets=q_proj:k_proj:v_proj:o_proj:gate_proj:up_proj:down_proj"
    ),
    "llama-rslora": Case("llama-tied-bias", lora="r=4,alpha=6,targets=q_proj:v_proj,rslora=on"),
    "llama-padding": Case("llama-padding", microbatches=(1, 4)),
    "llama-padding-tied": Case("llama-padding-tied", microbatches=(1, 2), mixed=True),
}


def batch_of(tokens, step):
    sequences = (len(tokens) - 1) // LENGTH
    starts = [(step * BATCH + j) % sequences * LENGTH for j in range(BATCH)]
    rows = torch.tensor([tokens[s : s + LENGTH + 1] for s in starts])
    return rows[:, :-1], rows[:, 1:]


def learning_rate(case, step):
    if step < case.warmup:
        return case.lr * (step + 1) / case.warmup
    if case.schedule == "constant":
        return case.lr
    done = (step - case.warmup) / (STEPS - case.warmup)
    return case.min_lr + (case.lr - case.min_lr) * (1 + math.cos(math.pi * done)) / 2


def make_optimizer(case, weights):
    name, _, text = case.optimizer.partition(":")
    options = dict(item.split("=") for item in text.split(",")) if text else {}
    every = options.pop("decay", "") == "all"
    options = {key: float(value) for key, value in options.items()}
    # PyTorch's defaults equal kiln's.
    decay = options.pop("weight_decay", 0.01 if name == "adamw" else 0.0)
    decayed = [w for w in weights.values() if every or w.dim() >= 2]
    others = [w for w in weights.values() if not every and w.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if name in ("adamw", "adam"):
        kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
        betas = (options.get("beta1", 0.9), options.get("beta2", 0.999))
        return kind(groups, lr=case.lr, betas=betas, eps=options.get("eps", 1e-8))
    if name not in ("sgd", "momentum", "nesterov"):
        raise ValueError(f"unknown optimizer '{name}'")
    momentum = options["momentum"] if name != "sgd" else 0.0
    return torch.optim.SGD(
        groups, lr=case.lr, momentum=momentum, nesterov=name == "nesterov"
    )


def load(config, dtype):
    weights = {}
    for name, shape, kind in make_weights.parameters(config):
        data = make_weights.values(name, kind, math.prod(shape))
        weights[name] = torch.tensor(data, dtype=dtype).view(shape).requires_grad_()
    return weights


def compute_in_f64(config):
    """Replaces the parts of transformers' Llama that always compute in f32."""
    from transformers.models.llama import modeling_llama as llama

    def norm(self, x):
        return self.weight * (x * (x.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt())

    def rotary(self, x, position_ids):
        head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        frequencies = torch.tensor(reference.rope_frequencies(config, head), dtype=x.dtype)
        angles = position_ids[..., None].to(x.dtype) * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    llama.LlamaRMSNorm.forward = norm
    llama.LlamaRotaryEmbedding.forward = rotary


def load_peft(case, config):
    """Returns the factors of PEFT's adapters by their names in files, and the loss."""
    import peft
    import transformers

    kinds = {"gpt2": transformers.GPT2LMHeadModel, "llama": transformers.LlamaForCausalLM}
    kind = kinds[config["model_type"]]
    if config["model_type"] == "llama":
        compute_in_f64(config)
    settings = kind.config_class(**config, attn_implementation="sdpa")
    base = kind(settings).double()
    weights = {name: w.detach() for name, w in load(config, torch.float64).items()}
    missing, unexpected = base.load_state_dict(weights, strict=False)
    assert not unexpected and all("lm_head" in name for name in missing), (missing, unexpected)
    base.tie_weights()
    options = make_weights.lora_options(case.lora)
    gpt2 = config["model_type"] == "gpt2"
    model = peft.get_peft_model(base, peft.LoraConfig(**options, fan_in_fan_out=gpt2)).double()
    factors = {}
    for name, shape, part in make_weights.adapter_parameters(config, case.lora):
        data = make_weights.values(name, part, math.prod(shape))
        factor = model.get_parameter(name.replace("_A.", "_A.default.").replace("_B.", "_B.default."))
        with torch.no_grad():
            factor.copy_(torch.tensor(data, dtype=torch.float64).view(shape))
        factors[name] = factor
    trained = {id(w) for w in model.parameters() if w.requires_grad}
    assert trained == {id(w) for w in factors.values()}

    def loss(tokens, targets):
        return reference.cross_entropy(model(tokens).logits, targets)

    return factors, loss


def evaluate(loss, tokens):
    with torch.no_grad():
        losses = [
            loss(*batch_of(tokens, i)).item()
            for i in range(VALIDATION_BATCHES)
        ]
    return sum(losses) / len(losses)


def digests(tensors, samples):
    return {
        name: digest.digest(name, tensor.detach().flatten().tolist(), samples)
        for name, tensor in tensors.items()
    }


def train(case, low=None):
    """Runs a case in f64, or with PyTorch's autocast to the type `low`, weights in f32 and, if
    `low` is float16, scaled gradients.

    Returns its expectation and the gradients of the first step.
    """
    config = json.loads((MODELS / case.model / "config.json").read_text())
    if case.lora:
        weights, loss_of = load_peft(case, config)
    else:
        weights = load(config, torch.float32 if low else torch.float64)
        loss_of = functools.partial(reference.loss, config, weights)
    train_tokens = make_weights.train_tokens(config)
    validation_tokens = make_weights.validation_tokens(config)
    optimizer = make_optimizer(case, weights)
    scaler = torch.amp.GradScaler("cpu", init_scale=LOSS_SCALE, enabled=low == torch.float16)
    steps, gradients = [], {}
    first_evaluation = evaluate(loss_of, validation_tokens)
    for step in range(STEPS):
        rate = learning_rate(case, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=low or torch.bfloat16, enabled=low is not None):
            loss = loss_of(*batch_of(train_tokens, step))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = math.sqrt(
            sum(w.grad.double().square().sum().item() for w in weights.values())
        )
        steps.append({"loss": loss.item(), "grad_norm": norm, "lr": rate})
        if step == 0:
            gradients = {name: w.grad.clone() for name, w in weights.items()}
        scale = case.clip / (norm + 1e-6)
        if case.clip > 0 and scale < 1:
            for w in weights.values():
                w.grad.mul_(scale)
        scaler.step(optimizer)
        scaler.update()
        if scaler.is_enabled() and scaler.get_scale() != LOSS_SCALE:
            raise SystemExit(f"generate.py: the gradients of step {step} overflowed")
    return {
        "steps": steps,
        "evaluation": {
            "first": first_evaluation,
            "last": evaluate(loss_of, validation_tokens),
        },
        "weights": weights,
    }, gradients


def own_error(case, low, result, gradients):
    """Returns the error of PyTorch's mixed precision, as defined by compare.py."""
    mixed, mixed_gradients = train(case, low)

    def worst(key):
        pairs = zip(mixed["steps"], result["steps"])
        return max(abs(a[key] - b[key]) / abs(b[key]) for a, b in pairs)

    total = math.sqrt(sum(g.square().sum().item() for g in gradients.values()))
    errors = [
        (mixed_gradients[name].double() - g).norm().item()
        / (g.norm().item() + MIXED_FLOOR * total)
        for name, g in gradients.items()
    ]
    return {
        "loss": worst("loss"),
        "gradient": max(errors),
        "grad_norm": worst("grad_norm"),
        "floor": MIXED_FLOOR,
    }


def flags(case):
    """Returns the flags with which kiln runs the case."""
    compile_flags = [
        f"--batch={BATCH}",
        f"--seq={LENGTH}",
        f"--optimizer={case.optimizer}",
        f"--clip={'off' if case.clip < 0 else 'on'}",
    ]
    if case.lora:
        compile_flags.append(f"--lora={case.lora}")
    run_flags = [f"--steps={STEPS}", f"--lr={case.lr!r}"]
    run_flags.append(f"--val-batches={VALIDATION_BATCHES}")
    if case.schedule != "constant":
        run_flags.append(f"--lr-schedule={case.schedule}")
        run_flags.append(f"--min-lr={case.min_lr!r}")
    if case.warmup:
        run_flags.append(f"--warmup-steps={case.warmup}")
    if case.clip >= 0:
        run_flags.append(f"--grad-clip={case.clip!r}")
    return {
        "compile_flags": compile_flags,
        "run_flags": run_flags,
        "microbatches": list(case.microbatches),
    }


def dump(path, value):
    """Writes JSON with one line per step and tensor."""

    def entries(part):
        if isinstance(part, dict):
            items = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in part.items()]
            return "{\n  " + ",\n  ".join(items) + "}"
        if isinstance(part, list) and part and isinstance(part[0], dict):
            return "[\n  " + ",\n  ".join(json.dumps(v) for v in part) + "]"
        return json.dumps(part)

    path.parent.mkdir(exist_ok=True)
    lines = [f"{json.dumps(key)}: {entries(part)}" for key, part in value.items()]
    path.write_text("{" + ",\n ".join(lines) + "}\n")


def main(names):
    unknown = [name for name in names if name not in CASES]
    if unknown:
        print(f"generate.py: no case '{unknown[0]}'", file=sys.stderr)
        return 2
    for name in names or CASES:
        case = CASES[name]
        result, gradients = train(case)
        weights = result.pop("weights")
        expectation = {"model": case.model, **flags(case), **result}
        gradients_of = name if case.lora else case.model
        if case.lora:
            expectation |= {"lora": case.lora, "gradients": gradients_of}
        if case.mixed:
            for name_of, low in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
                error = own_error(case, low, result, gradients)
                expectation[f"pytorch_{name_of}_error"] = error
        if case.compare_weights:
            expectation["weights"] = digests(weights, WEIGHT_SAMPLES)
        dump(HERE / "cases" / f"{name}.json", expectation)
        dump(
            HERE / "gradients" / f"{gradients_of}.json",
            {"gradients": digests(gradients, GRADIENT_SAMPLES)},
        )
        first, last = result["steps"][0], result["steps"][-1]
        print(
            f"{name}: loss {first['loss']:.6f} -> {last['loss']:.6f}, "
            f"gradient norm {first['grad_norm']:.4f} -> {last['grad_norm']:.4f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
