# ===- half_weights.py - Comparison with weights in f16 ----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""half_weights.py ORIGINAL HALF: checks that HALF has the tensors of ORIGINAL, each element rounded
to the nearest number of f16, so that it has exactly half of the bytes."""

import pathlib
import struct
import sys

import harness

original, half = (harness.saved_tensors(pathlib.Path(path)) for path in sys.argv[1:])
for tensors in (original, half):
    tensors.pop("__metadata__", None)
if original.keys() != half.keys():
    harness.fail(f"different tensors: {sorted(original.keys() ^ half.keys())}")
for name, (dtype, shape, data) in original.items():
    values = struct.unpack(f"<{len(data) // 4}f", data)
    if dtype != "F32" or half[name] != ("F16", shape, struct.pack(f"<{len(values)}e", *values)):
        harness.fail(f"{name} is not the rounded tensor")
print(f"{len(half)} tensors, {sum(len(data) for _, _, data in half.values())} bytes")
