#!/usr/bin/env python3
# ===- bigram_entropy.py - Bigram entropy of a text --------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Prints the bigram conditional entropy of a text, in nats per byte.

    bigram_entropy.py FILE

This is H(next byte | byte) of the text: the minimum loss on this text of any model
that predicts each byte from the previous byte only. A model with a longer context
should reach a lower loss.
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
