# ===- part_sanitizer.py - Runs under compute-sanitizer ----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Checks memory accesses, races, uninitialised reads and barriers of two training steps
of small models with NVIDIA's compute-sanitizer, found on PATH or in a CUDA toolkit."""

import glob
import re
import shutil

from . import data, process
from .context import Outcome, Row

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PLACES = (
    "/usr/local/cuda/bin/compute-sanitizer",
    "/usr/local/cuda*/bin/compute-sanitizer",
    "/usr/local/cuda*/compute-sanitizer/compute-sanitizer",
    "/opt/nvidia/*/compute-sanitizer/compute-sanitizer",
)
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)")
FOUND = 77


def checker():
    found = shutil.which("compute-sanitizer")
    paths = [found] if found else [path for place in PLACES for path in sorted(glob.glob(place))]
    if not paths:
        raise process.NotRun("no compute-sanitizer on PATH or in a CUDA toolkit")
    return paths[0]


def check(context, case, tool):
    tokens = data.tokens_for(context, case, 2)
    command = [checker(), f"--tool={tool}", f"--error-exitcode={FOUND}"]
    command += [context.bundle.executable(case, "device"), f"--data={tokens}", "--from-scratch"]
    done = context.run([*command, *case.run_flags(2)], expect=(0, FOUND))
    text = done.out + done.err
    summary = SUMMARY.search(text)
    if not summary:
        raise process.Failed(f"no summary: {process.first_line(text)}")
    errors = int(summary.group(1))
    lines = [line for line in text.splitlines() if line.startswith("========= ")]
    note = "" if errors == 0 else " ".join(line[10:].strip() for line in lines[1:6])[:300]
    ok = errors == 0 and done.code == 0
    return Outcome({"errors": errors}, ok, "0 errors", note, done.command)


def rows(context):
    for case in context.bundle.using("sanitizer"):
        for tool in TOOLS:
            yield Row(
                f"{case.name}: {tool}",
                lambda case=case, tool=tool: check(context, case, tool),
                180.0,
                20.0,
            )
