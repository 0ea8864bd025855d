#!/usr/bin/env python3
# ===- bigram_entropy.py - How well one byte predicts the next ----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Prints the bigram conditional entropy of a text, in nats per byte.

    bigram_entropy.py FILE

This is H(next byte | byte) of the text's own statistics: the least loss that any
model can reach on this text when it looks at one byte only. A model that looks
further back should be below it.
"""

import collections
import math
import pathlib
import sys


def bigram_entropy(data: bytes) -> float:
    pairs = collections.Counter(zip(data, data[1:]))
    firsts = collections.Counter(data[:-1])
    total = len(data) - 1
    return -sum(n / total * math.log(n / firsts[first]) for (first, _), n in pairs.items())


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: bigram_entropy.py FILE", file=sys.stderr)
        return 2
    data = pathlib.Path(sys.argv[1]).read_bytes()
    if len(data) < 2:
        sys.exit(f"bigram_entropy.py: '{sys.argv[1]}' has {len(data)} bytes, expected at least 2")
    print(f"{bigram_entropy(data):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
