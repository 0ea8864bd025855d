# ===- int8.py - Checks the weights and bytes of int8 states -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""int8.py EXE BASE MERGED RANK OUTLIERS block|row: MERGED are the weights that EXE, with
adapters of rank RANK on all linear layers that are still zero, has made of BASE. The columns of
linear layers that have the largest elements must be those of BASE, rounded to bf16, and each
other element must have the bits of code * scale; all other tensors equal BASE. The parameters
must take the bytes of this storage. Tensors are F32 in BASE."""

import array
import json
import math
import pathlib
import struct
import subprocess
import sys

executable, base, merged = sys.argv[1:4]
rank, outliers, scales = int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]


def tensors(path):
    content = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    for name, tensor in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in tensor["data_offsets"])
            assert tensor["dtype"] == "F32", name
            yield name, (tensor["shape"], array.array("f", content[begin:end]))


def rounded(value):
    """Rounds a number to f32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bfloat(value):
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    bits += 0x7FFF + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]


def padded(count):
    return (count + 3) // 4 * 4


base, merged = dict(tensors(base)), dict(tensors(merged))
expected = quantized = 0
for name, (shape, after) in merged.items():
    before = base[name][1]
    if not name.endswith("proj.weight"):
        expected += 4 * len(before)
        if before != after:
            sys.exit(f"{name} has changed")
        continue
    rows, columns = shape
    largest = [max(map(abs, before[column::columns])) for column in range(columns)]
    kept = set(sorted(range(columns), key=lambda column: (-largest[column], column))[:outliers])
    block = columns if scales == "row" else 64
    elements = math.prod(shape)
    for first in range(0, elements, block):
        part = range(first, min(first + block, elements))
        coded = [i for i in part if i % columns not in kept]
        scale = rounded(max((abs(before[i]) for i in coded), default=0) / 127)
        for i in part:
            # round() rounds halves to even, as the encoder does.
            code = round(rounded(before[i] / scale)) if i in coded else 0
            want = rounded(code * scale) if i in coded else bfloat(before[i])
            if after[i] != want:
                sys.exit(f"{name}: element {i} is {after[i]}, expected {want}, from {before[i]}")
    expected += padded(elements) + 4 * -(-elements // block) + 4 * outliers + padded(2 * outliers * rows)
    expected += 4 * rank * sum(shape)
    quantized += 1
described = subprocess.run([executable, "--describe"], check=True, capture_output=True, text=True).stdout
found = int(described.split('"parameters":')[1].split(",")[0].split("}")[0])
if found != expected:
    sys.exit(f"the parameters take {found} bytes, expected {expected}")
if not quantized:
    sys.exit("no weight is quantized")
print(f"{quantized} quantized weights, {expected} bytes of parameters")
