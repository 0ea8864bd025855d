#!/usr/bin/env python3
# ===- version_pairs.py - Step and compile times of two versions -------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compares two versions of kilnc in pairs: the time to compile a model and the time of a
training step.

    version_pairs.py --new=build/bin/kilnc --old=OLD_KILNC [--pairs=60] [--what=compile,step]
                     [--model=DIR] [--compile=FLAGS] [--step=FLAGS]

Each round measures the old version, the new version, and the old version again. The ratio of
a pair is the time of the new version divided by the mean of the other two, so that a steady
drift of the machine cancels. The ratio of the two measurements of the old version shows the
noise of the machine. Each line shows the medians of both ratios and whether the first is
within its limit (1.05 for compilation, 1.01 for steps). The exit code is 1 if a limit is
exceeded. Compilation is measured as processor time and as wall-clock time."""

import argparse
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from busy_step import Run
from peer_step import write_tokens

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMITS = {"compile, CPU": 1.05, "compile, wall": 1.05, "step": 1.01}


def compile_times(kilnc, options, output):
    before, start = os.times(), time.monotonic()
    command = [kilnc, options.model, *shlex.split(options.compile), "-o", output]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    wall, after = time.monotonic() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {"compile, CPU": used, "compile, wall": wall}


def step_time(run, steps):
    """Returns the median of a few steps, without the step that the signal interrupted."""
    run.go()
    found = []
    while len(found) <= steps:
        time.sleep(0.01)
        found += run.steps()
    run.stop()
    return {"step": statistics.median(found[1 : steps + 1])}


def rounds_of(options, measure):
    """Returns the results of `measure` for the old, the new and again the old version, per
    round."""
    for number in range(options.pairs):
        yield [measure(index) for index in range(3)]
        print(f"\r{number + 1} of {options.pairs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def report(rounds):
    rounds, worst = list(rounds), 0
    for name in rounds[0][0]:
        pairs = statistics.median(2 * new[name] / (old[name] + again[name]) for old, new, again in rounds)
        alone = statistics.median(again[name] / old[name] for old, _, again in rounds)
        seconds = statistics.median(old[name] for old, _, _ in rounds)
        kept = pairs <= LIMITS[name]
        worst |= not kept
        print(f"{name}: {len(rounds)} pairs, old {seconds:.3f}, new / old {pairs:.4f}, old / old {alone:.4f}, "
              f"limit {LIMITS[name]} {'kept' if kept else 'EXCEEDED'}")  # fmt: skip
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--new", required=True)
    parser.add_argument("--old", required=True)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--what", default="compile,step")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "test/Integration/models/gpt2-124m")
    parser.add_argument("--compile", default="--batch=8 --seq=512 --memory-budget=2200MiB")
    parser.add_argument("--step", default="--batch=4 --seq=64 --clip=off --dropout=0")
    parser.add_argument("--steps", type=int, default=2, help="steps of one measurement")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    unknown = set(options.what.split(",")) - {"compile", "step"}
    if unknown or options.pairs < 1:
        parser.error("--what is compile, step or both, and --pairs at least 1")
    versions = [options.old, options.new, options.old]
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        if "compile" in options.what:
            failed |= report(rounds_of(options, lambda i: compile_times(versions[i], options, work / "compiled")))
        if "step" in options.what:
            data = work / "tokens.bin"
            write_tokens(data, argparse.Namespace(model=options.model, batch=8, seq=256))
            runs = []
            try:
                for i, kilnc in enumerate(versions):
                    executable = work / f"train{i}"
                    command = [kilnc, options.model, *shlex.split(options.step), f"--max-threads={options.threads}"]
                    subprocess.run(list(map(str, [*command, "-o", executable])), check=True, capture_output=True)
                    runs.append(Run(executable, data, work / f"log{i}.jsonl", options))
                failed |= report(rounds_of(options, lambda i: step_time(runs[i], options.steps)))
            finally:
                for run in runs:
                    run.close()
    return failed


if __name__ == "__main__":
    sys.exit(main())
