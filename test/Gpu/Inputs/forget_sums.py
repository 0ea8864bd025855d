# ===- forget_sums.py - Disable accumulation in a gemm -----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""forget_sums.py EXECUTABLE COPY NAME: copies an executable with several micro-batches
and disables accumulation in the gemm NAME, so that the gradient is that of the last
micro-batch alone. None of the emulated GPU's checks detects this error."""

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
    raise SystemExit(f"no accumulating gemm {name} in {executable}")
content[found.start(1) : found.end(1)] = b"0".ljust(len(found.group(1)))
pathlib.Path(copy).write_bytes(content)
os.chmod(copy, 0o755)
