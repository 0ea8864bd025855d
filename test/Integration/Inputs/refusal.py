# ===- refusal.py - A command that must fail with one line -------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""refusal.py CODE COMMAND...: runs a command that must end with this exit code, print
nothing to stdout and exactly one line to stderr. Prints that line."""

import sys

import harness

code, *command = sys.argv[1:]
done = harness.run(command, expect=int(code))
if done.stdout or done.stderr.count("\n") != 1:
    harness.fail(f"said {done.stdout!r} and {done.stderr!r}, expected one line of stderr")
print(done.stderr, end="")
