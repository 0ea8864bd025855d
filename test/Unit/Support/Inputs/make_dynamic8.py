#!/usr/bin/env python3
# ===- make_dynamic8.py - Dynamic 8-bit codes from bitsandbytes ---------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Prints the expectations in Dynamic8Test.cpp, which are made by bitsandbytes.

    make_dynamic8.py          (needs bitsandbytes 0.50.2, PyTorch 2.15.0 and NumPy)

Runs on an x86-64 CPU with AVX2; other CPUs give another dynamic map. The elements are those of
makeElements() in Dynamic8Test.cpp.

On a CPU, bitsandbytes quantizes f32, bf16 and f16 with a C++ function that first rounds numbers
to 65536 equidistant values. `generic` therefore calls the implementation that the library
registers for all other devices.
"""

import inspect

import bitsandbytes
import bitsandbytes.functional as F
import numpy as np
import torch
from bitsandbytes.backends.default import ops

BLOCK = 256
CASES = [("Normal", 64), ("Wide", 64), ("Decayed", 64), ("Zeros", 16), ("Borders", 3), ("Tiny", 16)]


def generic():
    """Returns the function that backends/default/ops.py registers as quantize_blockwise."""
    source = inspect.getsource(ops)
    start = source.index('@register_kernel("bitsandbytes::quantize_blockwise", "default")')
    begin = source.index("def _(", start)
    end = source.index("\n\n\n", begin)
    scope = {"torch": torch}
    exec(source[begin:end].replace("def _(", "def quantize("), scope)
    return scope["quantize"]


def splitmix64(state):
    z = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def normal(bits):
    """Maps random 64-bit numbers to about a normal distribution."""
    part = np.uint64(0xFFFFF)
    terms = (bits & part) + (bits >> np.uint64(20) & part) + (bits >> np.uint64(40) & part)
    return (terms.astype(np.int64) - 3 * 2**19).astype(np.float32) * np.float32(2.0**-26)


def elements(kind, blocks, seed, borders):
    index = np.arange(blocks * BLOCK, dtype=np.uint64)
    block = index // np.uint64(BLOCK)
    bits = splitmix64(np.uint64(seed << 32) + index)
    value = normal(bits)
    if kind == "Wide":
        value = value * np.exp2(-(bits >> np.uint64(59)).astype(np.float32))
    elif kind == "Decayed":
        value = value * value * np.float32(2.0**-40)
    elif kind == "Zeros":
        value[block % np.uint64(5) == 3] = 0
    elif kind == "Tiny":
        value = value * np.float32(2.0**-110)
    elif kind == "Borders":
        # The borders and the floats next to them. The first element of a block is the scale.
        place = (index % np.uint64(BLOCK)).astype(np.int32)
        value = borders[np.maximum(place - 1, 0)]
        step = block.astype(np.int32) - 1
        moved = (value.view(np.int32) + step).view(np.float32)
        value = np.where(place == 0, np.float32(1), moved)
    assert value.dtype == np.float32
    return value


def fnv(data):
    hashed = 0xCBF29CE484222325
    for byte in data.tobytes():
        hashed = (hashed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"0x{hashed:016x}"


def main():
    assert bitsandbytes.__version__ == "0.50.2", bitsandbytes.__version__
    assert torch.__version__.startswith("2.15.0"), torch.__version__
    assert torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    quantize = generic()
    for signed in (True, False):
        name = "Signed" if signed else "Unsigned"
        code = F.create_dynamic_map(signed=signed)
        borders = ((code[:-1] + code[1:]) / 2).numpy()
        print(f"// {name} values: {fnv(code.numpy())}")
        for seed, (kind, blocks) in enumerate(CASES, start=1):
            value = torch.from_numpy(elements(kind, blocks, seed, borders))
            if not signed:
                value = value.abs()
            codes, scales = quantize(value, code, BLOCK)
            state = F.QuantState(absmax=scales, code=code, blocksize=BLOCK, dtype=torch.float32)
            decoded = F.dequantize_blockwise(codes, state)
            print(f"    {{DynamicMap::{name}, Kind::{kind}, {blocks}, {seed}, {fnv(codes.numpy())},")
            print(f"     {fnv(scales.numpy())}, {fnv(decoded.numpy())}}},")


if __name__ == "__main__":
    main()
