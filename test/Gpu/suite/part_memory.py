# ===- part_memory.py - Planned memory compared with the driver's ------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Runs --check-memory: the allocation of the arena must reduce the driver's free memory
by the size of the arena, rounded up to the driver's granularity, and free memory must
not change over steps 2 to 20. The memory of the context, the kernels, the libraries and
the graphs is listed."""

import re

from . import process, tolerances
from .context import Outcome, Row

TAKEN = "free memory of the GPU taken by: "
CHANGE = re.compile(r"free memory of the GPU over runs .* changes by +0 +(-?\d+)$")


def check(context, case):
    command = [context.bundle.executable(case, "device"), "--check-memory"]
    done = context.run(command, expect=(0, 1))
    lines = [line for line in done.out.splitlines() if line[:4] in ("ok  ", "FAIL")]
    if not lines:
        raise process.Failed(process.first_line(done.err or done.out))
    values, failures, change = {}, [], 0
    for line in lines:
        text = line[6:]
        if line.startswith("FAIL"):
            failures.append(" ".join(text.split()))
        if text.startswith(TAKEN):
            words = re.split(r" {2,}", text[len(TAKEN) :].strip())
            values[words[0]] = int(words[-1])
            if words[0] == "arena":
                values["arena, planned"] = int(words[1])
        if moved := CHANGE.search(text):
            change = max(change, abs(int(moved.group(1))))
    if not context.dry:
        if "arena" not in values:
            failures.append("the output has no line for the arena")
        values["change over steps 2 to 20"] = change
        if change > tolerances.MEMORY_CHANGE:
            failures.append(f"free memory changes by {change}")
    values["checks"] = len(lines)
    ok = done.code == 0 and not failures
    wanted = "the arena rounded up, and no change"
    return Outcome(values, ok, wanted, "; ".join(failures[:3]), done.command)


def rows(context):
    for case in context.bundle.using("memory"):
        limit = 300.0 if case.large else 120.0
        yield Row(case.name, lambda case=case: check(context, case), limit)
