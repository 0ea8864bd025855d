# ===- refusal.py - A command that must fail in one line ---------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""refusal.py CODE COMMAND...: the command must end with this exit code, print nothing to
stdout and one line to stderr, which is printed."""

import sys

import harness

code, *command = sys.argv[1:]
done = harness.run(command, expect=int(code))
if done.stdout or done.stderr.count("\n") != 1:
    harness.fail(f"said {done.stdout!r} and {done.stderr!r}, expected one line of stderr")
print(done.stderr, end="")
