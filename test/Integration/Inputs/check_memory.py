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
import subprocess
import sys

import harness

# Checks of each program on every target.
CHECKS = [
    "bytes of the arena up to the last byte written",
    "results for two different initial contents of the memory",
    "each command changes only its results",
    "slots overwritten after their last use",
]
# The emulated GPU may allocate memory, but it checks every access.
BY_TARGET = {
    "cpu": [
        "allocator calls in a step",
        "mappings made in a step",
        "live heap after every step",
    ],
    "cuda-emu": ["races, accesses out of bounds, reads of uninitialised bytes"],
}

kilnc, model, work, common, *variants = sys.argv[1:]
work = harness.fresh_directory(work)
failures = []
for flags in variants or [""]:
    flags = shlex.split(common) + shlex.split(flags)
    executable = harness.compile_model(kilnc, model, work / "train", *flags)
    command = [executable, "--check-memory"]
    harness.show(command)
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    failures += [f"{shlex.join(flags)}: {line}" for line in lines if not line.startswith("ok ")]
    if done.returncode != 0:
        failures.append(f"{shlex.join(flags)}: exit code {done.returncode}: {done.stderr.strip()}")
    programs = ["train"] if "--eval=off" in flags else ["train", "evaluate", "generate"]
    target = "cuda-emu" if "--target=cuda-emu" in flags else "cpu"
    for program in programs:
        for check in CHECKS + BY_TARGET[target]:
            if not any(f"{program}: " in line and check in line for line in lines):
                failures.append(f"{shlex.join(flags)}: {program}: '{check}' was not checked")
print("\n".join(failures))
if failures:
    harness.fail(f"{len(failures)} checks failed")
print(f"{len(variants) or 1} executables use their memory as planned")
