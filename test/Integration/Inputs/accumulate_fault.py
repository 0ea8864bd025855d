# ===- accumulate_fault.py - A GEMM that accumulates wrongly -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""accumulate_fault.py EXECUTABLE COPY NAME: copies an executable and makes the first matmul
NAME of the training program accumulate into the memory of its result."""

import os
import pathlib
import re
import sys

import harness

executable, copy, name = sys.argv[1:]
content = bytearray(pathlib.Path(executable).read_bytes())
# The description also contains a plan for readers, which precedes the programs.
start = content.index(b'"train":{"inputs":[')
product = re.compile(rb'"beta":(0),(?:(?!"beta":).)*?"name":"' + re.escape(name.encode()) + b'","op":"gemm"')
found = product.search(content, start)
if not found:
    harness.fail(f"no product {name} in {executable}")
content[found.start(1)] = ord("1")
pathlib.Path(copy).write_bytes(content)
os.chmod(copy, 0o755)
