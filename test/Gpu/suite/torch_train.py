#!/usr/bin/env python3
# ===- torch_train.py - Training of suite cases in PyTorch -------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Trains models in PyTorch with weights and tokens from files, one after another.

--jobs is a JSON list of objects with the fields config, weights, tokens, batch, length,
steps, optimizer, rate, clip, precision and out. Each folder `out` receives log.json
(losses and gradient norms, or an error), gradients.safetensors (step 1, before clipping)
and weights.safetensors (after the last step). The models are those of
expectations/reference.py, plain PyTorch without a model library. fp32 disables TF32;
bf16 is autocast with weights and optimizer in fp32.
"""

import argparse
import array
import contextlib
import json
import math
import pathlib
import struct
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "expectations"))
sys.dont_write_bytecode = True

import reference  # noqa: E402
import torch  # noqa: E402

TYPES = {"F32": ("f", torch.float32), "F64": ("d", torch.float64)}


def read_safetensors(path):
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        _, kind = TYPES[entry["dtype"]]
        flat = torch.frombuffer(bytearray(raw[begin:end]), dtype=kind)
        tensors[name] = flat.view(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, parts, offset = {}, [], 0
    for name, tensor in tensors.items():
        flat = tensor.detach().to("cpu", torch.float32).contiguous()
        payload = bytes(flat.view(-1).view(torch.uint8).numpy().tobytes())
        end = offset + len(payload)
        header[name] = {"dtype": "F32", "shape": list(flat.shape), "data_offsets": [offset, end]}
        parts.append(payload)
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for part in parts:
            file.write(part)


def read_tokens(path):
    raw = path.read_bytes()
    count = struct.unpack("<i", raw[8:12])[0]
    ids = array.array("H", raw[1024 : 1024 + 2 * count])
    return torch.tensor(ids.tolist(), dtype=torch.long)


def make_optimizer(job, weights):
    name, _, text = job.optimizer.partition(":")
    settings = dict(item.split("=") for item in text.split(",")) if text else {}
    settings = {key: float(value) for key, value in settings.items()}
    decay = settings.pop("weight_decay", 0.01 if name == "adamw" else 0.0)
    groups = [
        {"params": [w for w in weights.values() if w.dim() >= 2], "weight_decay": decay},
        {"params": [w for w in weights.values() if w.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if name in ("adamw", "adam"):
        kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
        betas = (settings.get("beta1", 0.9), settings.get("beta2", 0.999))
        return kind(groups, lr=job.rate, betas=betas, eps=settings.get("eps", 1e-8))
    momentum = settings["momentum"] if name != "sgd" else 0.0
    return torch.optim.SGD(groups, lr=job.rate, momentum=momentum, nesterov=name == "nesterov")


def batch_of(tokens, step, job):
    """Returns a batch as kiln reads it: row j of step s is sequence s * batch + j."""
    length = job.length
    sequences = (len(tokens) - 1) // length
    first = [(step * job.batch + j) % sequences * length for j in range(job.batch)]
    rows = torch.stack([tokens[s : s + length + 1] for s in first])
    return rows[:, :-1], rows[:, 1:]


def train(job, device):
    kind = torch.float64 if job.precision == "fp64" else torch.float32
    config = json.loads(pathlib.Path(job.config).read_text())
    weights = {
        name: tensor.to(device, kind).clone().requires_grad_()
        for name, tensor in read_safetensors(pathlib.Path(job.weights)).items()
    }
    tokens = read_tokens(pathlib.Path(job.tokens)).to(device)
    out = pathlib.Path(job.out)
    optimizer = make_optimizer(job, weights)
    low = job.precision == "bf16"
    losses, norms = [], []
    for step in range(job.steps):
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16) if low else contextlib.nullcontext():
            loss = reference.loss(config, weights, *batch_of(tokens, step, job))
        loss.backward()
        norm = math.sqrt(sum(w.grad.double().square().sum().item() for w in weights.values()))
        losses.append(loss.item())
        norms.append(norm)
        if step == 0:
            write_safetensors(
                out / "gradients.safetensors", {name: w.grad for name, w in weights.items()}
            )
        scale = job.clip / (norm + 1e-6)
        if job.clip > 0 and scale < 1:
            for w in weights.values():
                w.grad.mul_(scale)
        optimizer.step()
    write_safetensors(out / "weights.safetensors", weights)
    return {"losses": losses, "norms": norms}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    # The models create masks and positions on the default device.
    torch.set_default_device(options.device)
    for fields in json.loads(options.jobs.read_text()):
        job = types.SimpleNamespace(**fields)
        try:
            log = train(job, options.device)
        except (RuntimeError, ValueError, KeyError) as error:
            log = {"error": str(error).splitlines()[0]}
        log["pytorch"] = torch.__version__
        (pathlib.Path(job.out) / "log.json").write_text(json.dumps(log))


if __name__ == "__main__":
    main()
