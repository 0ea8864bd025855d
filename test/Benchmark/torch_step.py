#!/usr/bin/env python3
# ===- torch_step.py - Training steps in PyTorch, on demand ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Implements the peer of peer_step.py, which runs a training step per request.

    torch_step.py --config=DIR/config.json --batch=4 --seq=64 --threads=2
                  [--compile] [--fused] [--attention=sdpa|matmul]
                  [--memory=all|checkpoint|selective|BUDGET] [--clip=NORM] [--bf16] [--bf16-weights]
                  [--lora=r=8,alpha=16,targets=c_attn] [--ranks=ddp|fsdp]

The model is a GPT-2, or a Llama of the library transformers.
Prints one JSON line that describes itself. For every line of standard input, it then prints
a line with the milliseconds of one step: forward, backward, AdamW and zero_grad. It uses f32,
or with --bf16 autocast to bf16, without dropout, and clips only with --clip. It also supports PyTorch 1.13, whose Debian
package calls the system's BLAS. --memory selects the values that are saved for the backward
pass: all of them; the input of each block (checkpoint); also the results of matmuls and
attention (selective); or the values that torch.compile saves with its
activation_memory_budget, a number from 0 to 1. --lora, with options as in kilnc, freezes the
model and trains adapters that the peft library adds; with --bf16-weights, the frozen weights are
bf16. With --ranks, the process is one rank of
a gloo group, which it joins through RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and
gradients are averaged by DistributedDataParallel (ddp) or parameters, gradients and optimizer
states are sharded by fully_shard (fsdp).
"""

import argparse
import json
import math
import os
import pathlib
import resource
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--config", required=True)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--seq", type=int, default=64)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--fused", action="store_true", help="AdamW in one kernel")
parser.add_argument("--attention", choices=["sdpa", "matmul"], default="sdpa")
parser.add_argument("--memory", default="all")
parser.add_argument("--clip", type=float, help="largest norm of all gradients")
parser.add_argument("--bf16", action="store_true", help="autocast to bf16")
parser.add_argument("--bf16-weights", action="store_true", help="store the frozen weights in bf16")
parser.add_argument("--lora", help="r=N,alpha=X,targets=NAME:NAME, adapters of peft")
parser.add_argument("--ranks", choices=["ddp", "fsdp"], help="train as one rank of several")
options = parser.parse_args()
if options.bf16_weights and not options.lora:
    parser.error("--bf16-weights needs --lora, which freezes the weights")
# PyTorch's OpenMP runtime reads this variable when it is loaded.
os.environ["OMP_NUM_THREADS"] = str(options.threads)

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402


def current_rss_mib():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


class Block(nn.Module):
    def __init__(self, width, heads, inner, length):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.c_fc = nn.Linear(width, inner)
        self.mlp_proj = nn.Linear(inner, width)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        self.register_buffer("mask", mask, persistent=False)

    def attend(self, q, k, v):
        if options.attention == "sdpa":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        return scores.masked_fill(~self.mask, float("-inf")).softmax(-1) @ v

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.c_attn(self.ln_1(x)).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in qkv)
        y = self.attend(q, k, v).transpose(1, 2).reshape(b, t, c)
        x = x + self.c_proj(y)
        hidden = F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.mlp_proj(hidden)


class GPT2(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["n_embd"]
        inner = c.get("n_inner") or 4 * width
        self.wte = nn.Embedding(c["vocab_size"], width)
        self.wpe = nn.Embedding(c["n_positions"], width)
        self.blocks = nn.ModuleList(
            Block(width, c["n_head"], inner, options.seq) for _ in range(c["n_layer"])
        )
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = self.run_block(block, x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


    def run_block(self, block, x):
        if options.memory not in ("checkpoint", "selective"):
            return block(x)
        from torch.utils import checkpoint as ac

        if options.memory == "checkpoint":
            return ac.checkpoint(block, x, use_reentrant=False)
        aten = torch.ops.aten
        kept = [aten.mm.default, aten.addmm.default, aten.bmm.default]
        kept += [aten._scaled_dot_product_flash_attention_for_cpu.default]
        contexts = lambda: ac.create_selective_checkpoint_contexts(kept)  # noqa: E731
        return ac.checkpoint(block, x, use_reentrant=False, context_fn=contexts)


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        import transformers

        names = {"sdpa": "sdpa", "matmul": "eager"}
        config = transformers.LlamaConfig(**c, attn_implementation=names[options.attention])
        self.model = transformers.LlamaForCausalLM(config)
        if options.memory == "checkpoint":
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        elif options.memory == "selective":
            parser.error("--memory=selective supports GPT-2 only")

    def forward(self, tokens, targets):
        logits = self.model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def make_model(config):
    torch.set_default_dtype(torch.bfloat16 if options.bf16_weights else torch.float32)
    model = {"gpt2": GPT2, "llama": Llama}[config["model_type"]](config)
    torch.set_default_dtype(torch.float32)
    return add_adapters(model) if options.lora else model


def blas_in_use():
    """Returns the library that provides `sgemm_`; a preloaded library precedes PyTorch's
    own."""
    preloaded = os.environ.get("LD_PRELOAD")
    if preloaded:
        return pathlib.Path(preloaded).name
    return "MKL" if torch.backends.mkl.is_available() else "the system's libblas"


def add_adapters(model):
    import peft

    lora = dict(item.split("=") for item in options.lora.split(","))
    targets = lora["targets"]
    if targets == "all-linear":
        # PEFT excludes the classifier, but only from models that it knows.
        targets = "q_proj:k_proj:v_proj:o_proj:gate_proj:up_proj:down_proj"
        targets = targets if isinstance(model, Llama) else "c_attn:c_proj:c_fc:mlp_proj"
    settings = peft.LoraConfig(r=int(lora["r"]), lora_alpha=float(lora["alpha"]), target_modules=targets.split(":"))
    model = peft.inject_adapter_in_model(settings, model)
    for parameter in model.parameters():
        # As get_peft_model() does.
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return model


def join_ranks(model):
    """Returns the model as a rank of several trains it."""
    torch.distributed.init_process_group("gloo")
    if options.ranks == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    config = json.loads(pathlib.Path(options.config).read_text())
    without_model = current_rss_mib()
    model = make_model(config)
    run = join_ranks(model) if options.ranks else model
    extra = {"fused": True} if options.fused else {}
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, weight_decay=0.1, **extra)
    if options.memory not in ("all", "checkpoint", "selective"):
        from torch._functorch import config as functorch

        functorch.activation_memory_budget = float(options.memory)
    run = torch.compile(run) if options.compile else run
    shape = (options.batch, options.seq)

    def step():
        tokens = torch.randint(0, config["vocab_size"], shape)
        targets = torch.randint(0, config["vocab_size"], shape)
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            loss = run(tokens, targets)
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        if options.clip:
            nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = loss.item()
        end = time.perf_counter()
        phases = (forward - start, backward - forward, end - backward)
        return {
            "step_ms": (end - start) * 1e3,
            "phases_ms": [phase * 1e3 for phase in phases],
            "loss": loss,
            "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "libraries_mib": without_model,
        }

    for _ in range(2):  # Compiles, and maps every page once.
        step()
    print(json.dumps({"torch": torch.__version__, "blas": blas_in_use()}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(step()), flush=True)


main()
