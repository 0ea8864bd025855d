# ===- compile_time.py - Compile time of a model -----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""compile_time.py KILNC LIMIT MODEL OUTPUT [flags]: fails if compiling takes more than LIMIT
seconds. The compile time depends on the number of different kernels, so a deep model must
not be slow; the limit allows for a loaded machine."""

import sys
import time

import harness

kilnc, limit, model, output, *flags = sys.argv[1:]
start = time.monotonic()
harness.compile_model(kilnc, model, output, *flags)
seconds = time.monotonic() - start
print(f"{seconds:.2f} seconds, at most {limit}")
if seconds > float(limit):
    harness.fail(f"compiling took {seconds:.1f} seconds, at most {limit} are allowed")
