# ===- words.py - A text of random words -------------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""words.py FILE: writes a text of 20,000 words in random order from a vocabulary of 150, which no
model of a few thousand steps learns by heart."""

import pathlib
import random
import string
import sys

source = random.Random(7)
words = ["".join(source.choices(string.ascii_lowercase, k=source.randint(2, 7))) for _ in range(150)]
pathlib.Path(sys.argv[1]).write_text(" ".join(source.choices(words, k=20000)))
