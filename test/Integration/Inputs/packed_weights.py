# ===- packed_weights.py - Independent reader of quantized weights -----------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""packed_weights.py ORIGINAL PACKED LOADED PRINTED MATRICES LIMIT

Decodes the file PACKED by the description in docs/use/ptq.md and checks

- that its tensors have exactly the types, shapes and bytes that follow from those of ORIGINAL,
- that the sizes and the ratio that kilnc PRINTED are those of the tensors,
- that all tensors but MATRICES matrices, those of linear layers, are stored unchanged,
- that the relative squared error of no matrix is above LIMIT, and
- that LOADED, the weights of an executable that started from PACKED, has the decoded bits."""

import json
import math
import pathlib
import re
import struct
import sys

import harness

BLOCK = {"int8": 64, "int4": 64, "kashin": 128}


def metadata(path):
    raw = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + size])["__metadata__"]


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


def rounded(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def hadamard(values):
    values, half = list(values), 1
    while half < len(values):
        for first in range(0, len(values), 2 * half):
            for i in range(first, first + half):
                values[i], values[i + half] = values[i] + values[i + half], values[i] - values[i + half]
        half *= 2
    return values


def levels(data, bits):
    """Returns the levels of codes of 1 or 2 bits, the lowest bits of a byte first."""
    mask = (1 << bits) - 1
    return [2 * (byte >> shift & mask) - mask for byte in data for shift in range(0, 8, bits)]


def decode(name, elements, codes, scales):
    if name == "int8":
        values = struct.unpack(f"<{len(codes)}b", codes)
    elif name == "int4":
        values = [(byte >> shift & 15) - 8 for byte in codes for shift in (0, 4)]
    if name in BLOCK:
        return [rounded(scales[i // 64] * values[i]) for i in range(elements)]
    bits = int(name.partition(":")[2])
    of_u, of_v, decoded = bits // 2, (bits + 1) // 2, []
    for block in range(len(codes) // (16 * bits)):
        data = codes[16 * bits * block :][: 16 * bits]
        u, v = levels(data[: 16 * of_u], of_u), hadamard(levels(data[16 * of_u :], of_v))
        a, b = scales[2 * block : 2 * block + 2]
        decoded += [rounded(a * x + b * y) for x, y in zip(u, v)]
    return decoded[:elements]


def main():
    original, packed, loaded = (harness.saved_tensors(pathlib.Path(path)) for path in sys.argv[1:4])
    printed, matrices, limit = pathlib.Path(sys.argv[4]).read_text(), int(sys.argv[5]), float(sys.argv[6])
    for tensors in (original, packed, loaded):
        tensors.pop("__metadata__", None)
    facts = json.loads(metadata(sys.argv[2])["kiln.packed"])
    name, shapes = facts["format"], facts["tensors"]
    kind, _, bits = name.partition(":")
    if facts["version"] != 1 or len(shapes) != matrices:
        harness.fail(f"version {facts['version']} with {len(shapes)} matrices, expected 1 and {matrices}")
    expected, worst = 0, 0
    for tensor, (dtype, shape, data) in original.items():
        if tensor not in shapes:
            if packed.pop(tensor) != (dtype, shape, data) or loaded[tensor][2] != data:
                harness.fail(f"{tensor} has changed")
            expected += len(data)
            continue
        elements = math.prod(shape)
        blocks = -(-elements // BLOCK[kind])
        codes = {
            "int8": ("I8", shape, elements),
            "int4": ("U8", [-(-elements // 2)], -(-elements // 2)),
            "kashin": ("U8", [blocks, 16 * int(bits or 0)], 16 * int(bits or 0) * blocks),
        }[kind]
        scales = ("F32", [blocks, 2] if kind == "kashin" else [blocks])
        found = [packed.pop(tensor + part) for part in (".codes", ".scales")]
        if shapes[tensor] != shape or (*found[0][:2], len(found[0][2])) != codes or found[1][:2] != scales:
            harness.fail(f"{tensor}: {[part[:2] for part in found]}, expected {codes} and {scales}")
        expected += len(found[0][2]) + len(found[1][2])
        values = decode(name, elements, found[0][2], floats(found[1][2]))
        if struct.pack(f"<{elements}f", *values) != loaded[tensor][2]:
            harness.fail(f"{tensor}: the executable has other values than the file")
        weights = floats(data)
        error = sum((a - b) ** 2 for a, b in zip(weights, values)) / sum(a * a for a in weights)
        worst = max(worst, error)
    if packed:
        harness.fail(f"unexpected tensors {sorted(packed)}")
    before = sum(len(data) for _, _, data in original.values())
    sizes = re.search(r"size: ([\d,]+) bytes before, ([\d,]+) bytes after, ratio ([\d.]+)", printed)
    if [int(text.replace(",", "")) for text in sizes.groups()[:2]] != [before, expected]:
        harness.fail(f"printed {sizes[0]}, expected {before} and {expected}")
    if float(sizes[3]) != round(expected / before, 6):
        harness.fail(f"printed the ratio {sizes[3]}, expected {expected / before:.6f}")
    print(f"{name}: {before} bytes became {expected}, relative squared error at most {worst:.2e}")
    if not 0 < worst <= limit:
        harness.fail(f"the relative squared error is {worst:.2e}, at most {limit} is allowed")


main()
