#!/usr/bin/env python3
# ===- torch_steps.py - GPT-2 training steps in PyTorch ----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Executes training steps of GPT-2 in PyTorch for the GPU suite's benchmarks.

Prints a JSON line with its configuration, then for every line of standard input a JSON
line with the milliseconds of a step (forward, backward, fused AdamW, zero_grad).

    --precision=bf16   autocast, weights and optimizer in fp32
    --precision=tf32   fp32 with TF32 matmuls
    --precision=fp32   matmuls in full fp32
    --padded           the vocabulary rounded up to a multiple of 128

There is no dropout and no clipping. Attention is scaled_dot_product_attention with the
fastest backend that supports the shape, which is measured at the start.
"""

import argparse
import contextlib
import json
import pathlib
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--config", type=pathlib.Path, required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--length", type=int, required=True)
parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="bf16")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--padded", action="store_true")
parser.add_argument("--device", default="cuda")
options = parser.parse_args()
on_gpu = options.device == "cuda"


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.c_fc = nn.Linear(width, inner)
        self.mlp_proj = nn.Linear(inner, width)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.c_attn(self.ln_1(x)).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in qkv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, c))
        hidden = F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.mlp_proj(hidden)


class GPT2(nn.Module):
    def __init__(self, c, vocabulary):
        super().__init__()
        width = c["n_embd"]
        inner = c.get("n_inner") or 4 * width
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(c["n_positions"], width)
        self.blocks = nn.ModuleList(Block(width, c["n_head"], inner) for _ in range(c["n_layer"]))
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def synchronize():
    if on_gpu:
        torch.cuda.synchronize()


def fastest_backend(config, kind):
    """Returns the fastest backend of attention, forward and backward, at the model's shape."""
    heads = config["n_head"]
    shape = (options.batch, heads, options.length, config["n_embd"] // heads)
    q, k, v = (torch.randn(shape, device=options.device, dtype=kind) for _ in range(3))
    for tensor in (q, k, v):
        tensor.requires_grad_()
    times = {}
    for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
        backend = getattr(SDPBackend, name, None)
        if backend is None or (name == "MATH" and times):
            continue
        try:
            with sdpa_kernel([backend]):
                for _ in range(3):
                    synchronize()
                    start = time.perf_counter()
                    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
                    synchronize()
                    times[name] = time.perf_counter() - start
        except RuntimeError:
            times.pop(name, None)
    return min(times, key=times.get)


def main():
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    config = json.loads(options.config.read_text())
    words = config["vocab_size"]
    vocabulary = -(-words // 128) * 128 if options.padded else words
    low = options.precision == "bf16"
    backend = fastest_backend(config, torch.bfloat16 if low else torch.float32)
    model = GPT2(config, vocabulary).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    run = torch.compile(model) if options.compile else model
    shape = (options.batch, options.length)

    def step():
        tokens = torch.randint(0, words, shape, device=options.device)
        targets = torch.randint(0, words, shape, device=options.device)
        synchronize()
        start = time.perf_counter()
        with torch.autocast(options.device, torch.bfloat16) if low else contextlib.nullcontext():
            loss = run(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = loss.item()
        synchronize()
        return {"step_ms": (time.perf_counter() - start) * 1e3, "loss": loss}

    with sdpa_kernel([getattr(SDPBackend, backend)]):
        for _ in range(4):  # Warm-up: compiles and allocates memory.
            step()
        peak = torch.cuda.max_memory_allocated() if on_gpu else 0
        about = {"torch": torch.__version__, "attention": backend, "peak_bytes": peak}
        print(json.dumps(about), flush=True)
        for _ in sys.stdin:
            print(json.dumps(step()), flush=True)


main()
