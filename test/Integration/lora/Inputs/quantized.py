# ===- quantized.py - Checks the weights and bytes of quantized states -------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""quantized.py EXE BASE MERGED RANK: MERGED are the weights that EXE, with adapters of rank
RANK on all linear layers that are still zero, has made of BASE. Linear layers must be as near
to BASE as NF4 is, and all other tensors equal to BASE; and the parameters must take the bytes
of this storage. Tensors are F32 in BASE."""

import array
import json
import math
import pathlib
import struct
import subprocess
import sys

# Half the largest difference between adjacent values of NF4, 1 - 0.6962, in units of the
# largest magnitude of a block; and the relative error of a scale of 8 bits, whose values near
# the largest differ by 1.4 % of the largest deviation from the mean in the group.
GAP = 0.1519 + 0.02


def tensors(path):
    content = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    for name, tensor in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in tensor["data_offsets"])
            assert tensor["dtype"] == "F32", name
            yield name, (tensor["shape"], array.array("f", content[begin:end]))


def padded(count):
    return (count + 3) // 4 * 4


executable, base, merged, rank = *sys.argv[1:4], int(sys.argv[4])
base, merged = dict(tensors(base)), dict(tensors(merged))
expected = quantized = 0
for name, (shape, after) in merged.items():
    before = base[name][1]
    if not name.endswith("proj.weight"):
        expected += 4 * len(before)
        if before != after:
            sys.exit(f"{name} has changed")
        continue
    elements = math.prod(shape)
    blocks = -(-elements // 64)
    expected += padded(-(-elements // 2)) + padded(blocks) + 4 * -(-blocks // 256) + 4
    expected += 4 * rank * sum(shape)
    if before == after:
        sys.exit(f"{name} is not quantized")
    for first in range(0, elements, 64):
        old, new = before[first : first + 64], after[first : first + 64]
        largest = max(map(abs, old))
        worst = max(abs(a - b) for a, b in zip(old, new))
        if worst > GAP * largest:
            sys.exit(f"{name}: error {worst / largest} of the largest magnitude of a block, expected {GAP}")
    quantized += 1
described = subprocess.run([executable, "--describe"], check=True, capture_output=True, text=True).stdout
found = int(described.split('"parameters":')[1].split(",")[0].split("}")[0])
if found != expected:
    sys.exit(f"the parameters take {found} bytes, expected {expected}")
print(f"{quantized} quantized weights, {expected} bytes of parameters")
