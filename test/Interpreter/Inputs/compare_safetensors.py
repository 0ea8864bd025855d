"""Compares the tensors of two safetensors files: compare_safetensors.py A B TOLERANCE.

The difference of a tensor is the norm of the difference divided by the norm of B's tensor.
"""

import json
import math
import struct
import sys
from pathlib import Path

FORMATS = {"F32": "f", "F64": "d", "I32": "i", "I64": "q"}


def load(path):
    content = Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + size])
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        data = content[8 + size + begin : 8 + size + end]
        code = FORMATS[info["dtype"]]
        count = len(data) // struct.calcsize(code)
        tensors[name] = (info["dtype"], struct.unpack(f"<{count}{code}", data))
    return tensors


def norm(values):
    return math.sqrt(sum(value * value for value in values))


first, second, tolerance = load(sys.argv[1]), load(sys.argv[2]), float(sys.argv[3])
if first.keys() != second.keys():
    raise SystemExit(f"names differ: {sorted(first.keys() ^ second.keys())}")
for name, (dtype, values) in first.items():
    other, reference = second[name]
    error = norm([a - b for a, b in zip(values, reference, strict=True)])
    relative = error / max(norm(reference), 1e-300)
    print(f"{name}: {dtype} and {other}, relative difference {relative:.3e}")
    if not relative <= tolerance:
        raise SystemExit(f"{name} differs by {relative:.3e}, tolerance {tolerance}")
