# ===- agree.py - Two runs with the same losses ------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""agree.py TOLERANCE A.jsonl B.jsonl [steps|eval]: checks that the losses of two logs differ
by a relative error of at most TOLERANCE; 0 requires equal bits."""

import sys

import harness

tolerance, first, second, *kind = sys.argv[1:]
kind = {"steps": "step", "eval": "eval"}[kind[0] if kind else "steps"]
pairs = [[line["loss"] for line in harness.events(log, kind)] for log in (first, second)]
if not pairs[0] or len(pairs[0]) != len(pairs[1]):
    harness.fail(f"{len(pairs[0])} and {len(pairs[1])} losses in {first} and {second}")
worst = max(abs(a - b) / abs(a) for a, b in zip(*pairs))
print(f"{len(pairs[0])} losses differ by at most {worst:.2e}, {tolerance} is allowed")
if not worst <= float(tolerance):
    harness.fail(f"losses differ by {worst:.2e}, at most {tolerance} is allowed: {pairs}")
