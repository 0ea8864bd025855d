# ===- check_memory.py - Memory checks of executables ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""check_memory.py KILNC MODEL WORK COMMON [FLAGS...]: compiles the model with the flags
COMMON and with each of FLAGS in turn (quoted lists, "" for none). Each executable must pass
--check-memory and must have run all checks for all of its programs."""

import shlex
import sys

import harness

kilnc, model, work, common, *variants = sys.argv[1:]
work = harness.fresh_directory(work)
failures = []
for flags in variants or [""]:
    flags = shlex.split(common) + shlex.split(flags)
    executable = harness.compile_model(kilnc, model, work / "train", *flags)
    harness.show([executable, "--check-memory"])
    failures += [f"{shlex.join(flags)}: {line}" for line in harness.memory_failures(executable, flags)]
print("\n".join(failures))
if failures:
    harness.fail(f"{len(failures)} checks failed")
print(f"{len(variants) or 1} executables use their memory as planned")
