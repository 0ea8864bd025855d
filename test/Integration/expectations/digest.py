# ===- digest.py - Small summaries of large tensors -------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Computes digests of tensors: norm, sum, samples and projections.

The projections are dot products with four vectors of independent entries, uniform in (-1,
1), that are derived from the tensor's name. If two tensors differ by e, their projections
differ by p.e, whose mean square is |e|^2 / 3. Two digests therefore determine |e|, the norm
of the difference, to about 40 %, and an error in any part of the tensor is detected.
"""

import math
import struct

from make_weights import hashes

PROJECTIONS = 4


def sample_positions(name, count, samples):
    """Returns the positions whose values a digest contains: all positions of a small tensor."""
    if count <= samples:
        return list(range(count))
    return sorted({h % count for h in hashes(name + "#samples", samples)})


def projections(name, data):
    """Returns the dot products with the four vectors: 16 bits of one hash per entry."""
    parts = [0.0] * PROJECTIONS
    scale, half = 2.0**-15, 32767.5
    unpack, pack = struct.unpack, struct.pack
    for value, h in zip(data, hashes(name + "#projections", len(data))):
        a, b, c, d = unpack("<4H", pack("<Q", h))
        parts[0] += value * (a - half)
        parts[1] += value * (b - half)
        parts[2] += value * (c - half)
        parts[3] += value * (d - half)
    return [part * scale for part in parts]


def norm(data):
    return math.sqrt(math.fsum(x * x for x in data))


def digest(name, data, samples):
    """Returns the digest of a flat sequence of floats."""
    positions = sample_positions(name, len(data), samples)
    return {
        "count": len(data),
        "norm": norm(data),
        "sum": math.fsum(data),
        "projections": projections(name, data),
        "positions": positions,
        "samples": [data[i] for i in positions],
    }


def difference(expected, name, data):
    """Estimates the norm of the difference between the digest's tensor and `data`."""
    pairs = zip(expected["projections"], projections(name, data))
    return math.sqrt(3.0 * sum((a - b) ** 2 for a, b in pairs) / PROJECTIONS)
