# ===- forget_sums.py - A product that forgets what it should add to ---------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""forget_sums.py EXECUTABLE COPY NAME: a copy of an executable of several micro-batches
in which the gradient of the product NAME is that of the last one alone. Nothing that
an emulated GPU checks is wrong with it."""

import os
import pathlib
import re
import sys

executable, copy, name = sys.argv[1:]
content = bytearray(pathlib.Path(executable).read_bytes())
start = content.index(b'"train":{"inputs":[')
product = re.compile(
    rb'"beta":("first"),(?:(?!"beta":).)*?"name":"' + re.escape(name.encode()) + b'","op":"gemm"'
)
found = product.search(content, start)
if not found:
    raise SystemExit(f"no sum of products {name} in {executable}")
content[found.start(1) : found.end(1)] = b"0".ljust(len(found.group(1)))
pathlib.Path(copy).write_bytes(content)
os.chmod(copy, 0o755)
