# ===- beside_pruning.py - Readers of checkpoints that are pruned ------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""beside_pruning.py EXE TEXT WORK READERS: one run saves after every step and keeps only the
newest checkpoint, while READERS runs start from the newest checkpoint that they find."""

import re
import subprocess
import sys
import time

import harness

executable, text, work, readers = sys.argv[1:]
checkpoints = harness.fresh_directory(work) / "checkpoints"
writer = subprocess.Popen(
    [executable, f"--data={text}", "--steps=100000000", "--threads=1"]
    + [f"--save={checkpoints}", "--save-every=1", "--keep=1"],
    stdout=subprocess.DEVNULL,
)
try:
    while not list(checkpoints.glob("checkpoint-*")):
        time.sleep(0.01)
    steps = set()
    for _ in range(int(readers)):
        done = harness.run(
            [executable, f"--resume={checkpoints}", "--threads=1"]
            + ["--steps=0", f"--val-data={text}", "--val-batches=1"]
        )
        said = re.match(r"using .*/checkpoint-(\d+) at step \1 of \d+\n", done.stderr)
        if not said or "skipping" in done.stderr:
            harness.fail(f"standard error is {done.stderr!r}")
        steps.add(int(said[1]))
    if writer.poll() is not None:
        harness.fail(f"the run that saves ended with {writer.returncode}")
finally:
    writer.kill()
    writer.wait()
if len(steps) < 2:
    harness.fail("nothing was saved between the readers: the test shows nothing")
print(f"{readers} readers found {len(steps)} checkpoints")
