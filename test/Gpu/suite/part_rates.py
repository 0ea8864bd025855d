# ===- part_rates.py - Peak rates of the GPU ---------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Measures copies on the device and over the link, and matmuls: a large one, and those
of GPT-2 124M at B=16, T=1024. Other parts compare their figures with these rates."""

import json
import pathlib
import sys

from . import gpt2
from .context import Outcome, Row

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"fp32": "f32", "bf16": "bf16"}
LARGE, SMALL = (8192, 8192, 8192), (64, 64, 64)


def measure(context, *flags):
    context.need_gpu()
    quick = ["--samples=3"] if context.quick else []
    command = [context.bundle.tool("kiln-gpu-rates"), *flags, *quick]
    done = context.run(command)
    return [json.loads(line) for line in done.out.splitlines()], done.command


def copies(context):
    small = ["--copy-bytes=1000000", "--link-bytes=1000000"] if context.quick else []
    lines, command = measure(context, *small)
    values = {
        f"{line['rate']}, GB/s": line["gb_per_second"] for line in lines if "gb_per_second" in line
    }
    return Outcome(values, command=command)


def shape_flag(kind, trans_a, trans_b, m, n, k):
    return f"{kind}:{m}x{n}x{k}" + (":ta" if trans_a else "") + (":tb" if trans_b else "")


def products(context, precision, config):
    """Measures the rate of a large matmul, and of all matmuls of a step together."""
    kind, tokens = NAMES[precision], 32 if context.quick else 16 * 1024
    shapes = list(gpt2.products(config, tokens))
    texts = [shape_flag(kind, *shape[1:6]) for shape in shapes]
    large = shape_flag(kind, 0, 0, *(SMALL if context.quick else LARGE))
    flags = [f"--product={text}" for text in [large, *texts]]
    lines, command = measure(context, "--copy-bytes=0", "--link-bytes=0", *flags)
    rates = {line["product"]: line for line in lines if "product" in line}
    seconds = sum(rates[text]["seconds"] * shape[6] for text, shape in zip(texts, shapes))
    values = {"large, TFLOP/s": rates[large]["tflop_per_second"]}
    values["of a step, TFLOP/s"] = gpt2.product_flops(config, tokens) / seconds * 1e-12
    slowest = min(texts, key=lambda text: rates[text]["tflop_per_second"])
    values["slowest, TFLOP/s"] = rates[slowest]["tflop_per_second"]
    return Outcome(values, note=f"slowest: {slowest}", command=command)


def attention(context, precision):
    """Measures PyTorch's fastest attention with the shape of GPT-2 124M."""
    context.need_torch()
    small = ["--batch=1", "--length=64"] if context.torch_device == "cpu" else []
    command = [sys.executable, HERE / "torch_attention.py", f"--precision={precision}", *small]
    command.append(f"--device={context.torch_device}")
    done = context.run(command, environment=None)
    values = json.loads(done.out.splitlines()[-1])
    note = values.pop("backend")
    return Outcome(values, note=note, command=done.command)


def rows(context):
    timed = [case for case in context.bundle.cases if "trace" in case.uses]
    yield Row("copies", lambda: copies(context), 120.0)
    for precision in dict.fromkeys(case.precision for case in timed):
        config = context.bundle.config(next(c for c in timed if c.precision == precision))
        yield Row(
            f"products, {precision}",
            lambda precision=precision, config=config: products(context, precision, config),
        )
        yield Row(
            f"PyTorch's attention, {precision}",
            lambda precision=precision: attention(context, precision),
        )
