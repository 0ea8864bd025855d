#!/usr/bin/env python3
# ===- torch_attention.py - PyTorch's fastest causal attention ---------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Measures scaled_dot_product_attention with every backend that supports the shape.

Prints the rates of the fastest backend, counting the causal half, as a JSON object.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--head", type=int, default=64)
parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
parser.add_argument("--device", default="cuda")
parser.add_argument("--samples", type=int, default=20)
options = parser.parse_args()
torch.backends.cuda.matmul.allow_tf32 = False
kind = torch.bfloat16 if options.precision == "bf16" else torch.float32
shape = (options.batch, options.heads, options.length, options.head)
q, k, v, do = (torch.randn(shape, device=options.device, dtype=kind) for _ in range(4))
for tensor in (q, k, v):
    tensor.requires_grad_()


def seconds_of(work):
    """Returns the median time of `work`, measured with CUDA events on a GPU."""
    work()
    times = []
    for _ in range(options.samples):
        if options.device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e-3)
        else:
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


# Two matmuls of T x T x d forward and five backward; half of each is masked.
flops = 2.0 * options.batch * options.heads * options.length**2 * options.head
results = {}
for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
    backend = getattr(SDPBackend, name, None)
    if backend is None:
        continue
    try:
        with sdpa_kernel([backend]):
            forward = seconds_of(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            backward = seconds_of(
                lambda: torch.autograd.grad(out, (q, k, v), do, retain_graph=True)
            )
    except RuntimeError:
        continue  # The backend does not support the shape, type or device.
    results[name] = (forward, backward)
fastest = min(results, key=lambda name: sum(results[name]))
forward, backward = results[fastest]
print(
    json.dumps(
        {
            "backend": fastest,
            "forward, TFLOP/s": 2 * flops / 2 / forward * 1e-12,
            "backward, TFLOP/s": 5 * flops / 2 / backward * 1e-12,
            "both, TFLOP/s": 7 * flops / 2 / (forward + backward) * 1e-12,
        }
    )
)
