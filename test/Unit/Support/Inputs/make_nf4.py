#!/usr/bin/env python3
# ===- make_nf4.py - Expectations of NF4 from bitsandbytes --------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Prints the expectations in Nf4Test.cpp, which are made by bitsandbytes.

    make_nf4.py          (needs bitsandbytes 0.50.2, PyTorch 2.15.0 and NumPy)

The lines of the table are formatted with clang-format afterwards.

Runs on an x86-64 CPU with AVX2; other CPUs give another dynamic map. One thread, because the mean
depends on the number of threads. The elements are those of makeElements() in Nf4Test.cpp.
"""

import bitsandbytes
import bitsandbytes.functional as F
import numpy as np
import torch

ROWS_AND_COLUMNS = [
    ("Normal", 1, 1),
    ("Normal", 1, 2),
    ("Normal", 1, 63),
    ("Normal", 1, 64),
    ("Normal", 5, 13),
    ("Normal", 3, 80),
    ("Normal", 1, 127),
    ("Normal", 100, 100),
    ("Normal", 255, 64),
    ("Normal", 256, 64),
    ("Normal", 257, 64),
    ("Normal", 1, 16385),
    ("Normal", 33, 1257),
    ("Normal", 512, 512),
    ("Bfloat", 1, 65),
    ("Bfloat", 768, 100),
    ("Wide", 300, 257),
    ("Wide", 128, 192),
    ("Zeros", 1, 31),
    ("Zeros", 77, 333),
    ("Equal", 9, 15),
    ("Denormal", 1, 200),
    ("Denormal", 19, 1003),
    ("Borders", 300, 64),
    ("Borders", 1, 61),
    ("Borders", 7, 183),
]

NF4 = F.get_4bit_type("nf4", device="cpu").numpy()
MIDDLES = (NF4[:-1] + NF4[1:]) / np.float32(2)


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


def elements(kind, count, seed):
    index = np.arange(count, dtype=np.uint64)
    block = index // np.uint64(64)
    bits = splitmix64(np.uint64(seed << 32) + index)
    value = normal(bits)
    if kind == "Bfloat":
        value = (value.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    elif kind == "Wide":
        value = value * np.exp2(-(bits >> np.uint64(60)).astype(np.float32))
    elif kind == "Zeros":
        value[(block % np.uint64(5) == 3) | (block == block[-1])] = 0
    elif kind == "Equal":
        value = np.where(bits >> np.uint64(63), np.float32(-0.75), np.float32(0.75))
    elif kind == "Denormal":
        value = value * np.float32(2.0**-120)
    elif kind == "Borders":
        # Middles of adjacent NF4 values times the magnitude of the block, and floats next to them.
        # The first element of a block is the magnitude.
        magnitude = np.abs(normal(splitmix64(np.uint64(seed << 32) + block))) + np.float32(2.0**-10)
        place = (index % np.uint64(64)).astype(np.int32)
        middle = MIDDLES[(place - 1) % 15] * magnitude
        value = (middle.view(np.int32) + ((place - 1) // 15 - 1)).view(np.float32)
        value[place > 60] = 0
        value = np.where(place == 0, magnitude, value)
    assert value.dtype == np.float32
    return value


def fnv(data):
    hashed = 0xCBF29CE484222325
    for byte in data.tobytes():
        hashed = (hashed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"0x{hashed:016x}"


def quantize(weight):
    packed, state = F.quantize_4bit(
        weight, blocksize=64, compress_statistics=True, quant_type="nf4"
    )
    assert state.absmax.dtype == torch.uint8 and state.state2.blocksize == 256
    return packed, state


def flat(tensor):
    return tensor.numpy().reshape(-1)


def expectation(seed, kind, rows, columns):
    value = elements(kind, rows * columns, seed)
    matrix = torch.from_numpy(value).view(rows, columns)
    if kind == "Bfloat":
        assert torch.equal(matrix.bfloat16().float(), matrix)
        matrix = matrix.bfloat16()
    packed, state = quantize(matrix)
    # As a vector, because the library may decode a matrix wrongly; of even length, because the
    # library compiles a function for odd lengths.
    vector, vector_state = quantize(torch.from_numpy(value))
    assert torch.equal(packed, vector) and torch.equal(state.absmax, vector_state.absmax)
    even = rows * columns // 2 * 2
    vector_state.shape = (even,)
    decoded = F.dequantize_4bit(vector[: even // 2], vector_state) if even else torch.empty(0)
    scales = np.concatenate((flat(state.absmax), flat(state.state2.absmax).view(np.uint8)))
    offset = float(state.offset).hex().replace("0000000p", "p")
    print(f"    {{{rows * columns}, Kind::{kind}, {seed}, {fnv(flat(packed))},")
    print(f"     {fnv(scales)}, {offset}f, {fnv(flat(decoded))}}},")


def main():
    assert bitsandbytes.__version__ == "0.50.2", bitsandbytes.__version__
    assert torch.__version__.startswith("2.15.0"), torch.__version__
    assert torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    torch.set_num_threads(1)
    print("// Dynamic values:", fnv(F.create_dynamic_map(signed=True).numpy()))
    print("// Middles:", fnv(MIDDLES))
    print("// Bytes of 67 elements of Kind::Normal with seed 99:")
    packed, state = quantize(torch.from_numpy(elements("Normal", 67, 99)))
    print("//  ", flat(packed).tobytes().hex(), flat(state.absmax).tobytes().hex())
    print("//  ", flat(state.state2.absmax).tobytes().hex(), flat(state.offset).tobytes().hex())
    for seed, case in enumerate(ROWS_AND_COLUMNS, start=1):
        expectation(seed, *case)


if __name__ == "__main__":
    main()
