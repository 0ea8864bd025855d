# ===- part_tests.py - Tests of the engine on a real driver ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Runs KilnDeviceTests: driver, memory, graphs, host functions, matmuls, faults. Each
test has its own process, since a process cannot use the GPU after a fault."""

from . import process
from .context import Outcome, Row


def names(context):
    """Returns the names of all tests as "Suite.Test"."""
    command = [context.bundle.tool("KilnDeviceTests"), "--gtest_list_tests"]
    done = process.run(command, 60, context.bundle.environment)
    suite, found = "", []
    for line in done.out.splitlines():
        if line.startswith("  "):
            found.append(suite + line.split()[0])
        elif line.endswith("."):
            suite = line
    return found


def run_test(context, name):
    context.need_gpu()
    command = [context.bundle.tool("KilnDeviceTests"), f"--gtest_filter={name}", "--gtest_brief=1"]
    done = context.run(command, expect=None)
    if done.code not in (0, 1):
        raise process.Failed(f"exit code {done.code}: {process.first_line(done.err or done.out)}")
    if "[  SKIPPED ]" in done.out:
        raise process.NotRun("skipped")
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    failed = [line for line in lines if "Failure" in line or "error:" in line]
    note = "" if done.code == 0 else " ".join(failed[:1] + lines[1:6])[:400]
    return Outcome({}, done.code == 0, "passes", note, done.command)


def rows(context):
    for name in names(context):
        yield Row(name, lambda name=name: run_test(context, name), 60.0, 5.0)
