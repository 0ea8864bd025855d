# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes masks for the bytes of TEXT to DIR, for sequences of 32 tokens.

Token p + 1 is the target of token p. `half` keeps the targets of the first 16 tokens of each
sequence, and `other` keeps the rest.
"""

import pathlib
import sys

count = len(pathlib.Path(sys.argv[1]).read_bytes())
directory = pathlib.Path(sys.argv[2])
first = bytes(1 if (token - 1) % 32 < 16 else 0 for token in range(count))
masks = {
    "ones": b"\x01" * count,
    "zeros": b"\x00" * count,
    "half": first,
    "other": bytes(1 - byte for byte in first),
    "short": b"\x01" * 5,
}
for name, mask in masks.items():
    (directory / name).write_bytes(mask)
