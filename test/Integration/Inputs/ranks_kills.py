# ===- ranks_kills.py - Ranks that are killed while they save -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_kills.py [--kills=100] [--mesh=dp=2] MPIRUN KILNC MODEL WORK [compile flags]: trains on ranks
that save a checkpoint after every step, kills one of them at a random moment, and continues from the
newest checkpoint, which must be complete, `kills` times. The last run must end with the bits of a
run that was never killed."""

import os
import random
import signal
import sys
import time

import harness
import ranks

LONG = 1_000_000

options, arguments = harness.leading_options(sys.argv[1:], kills=100, mesh="dp=2")
mpirun, kilnc, model, work, *extra = arguments
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
count, executable = ranks.compile_mesh(
    kilnc, model, work, options["mesh"], 4, "--seq=16", "--max-threads=1", "--eval=off", *extra
)
chance = random.Random(7)
saved = work / "saved"


def flags(name, steps, directory, *more):
    return [
        f"--data={work / 'train.bin'}",
        f"--steps={steps}",
        "--lr-schedule=constant",
        "--seed=3",
        "--save-every=1",
        "--keep=2",
        f"--log={work / name}.jsonl",
        f"--save={directory}",
        *more,
    ]


def newest():
    """Returns the flag that continues from the newest checkpoint, if there is one, and its step."""
    if not list(saved.glob("checkpoint-*")):
        return [], 0
    return [f"--resume={saved}"], int(harness.newest_checkpoint(saved).name[11:])


during = 0  # Kills that left an incomplete checkpoint behind.
for kill in range(options["kills"]):
    more, step = newest()
    name = f"run{kill}"
    process = ranks.start(mpirun, count, executable, *flags(name, LONG, saved, *more))
    ranks.wait_for_steps(work / f"{name}.jsonl", chance.randrange(1, 4), process)
    time.sleep(chance.uniform(0, 0.03))
    pids = ranks.processes_of(executable)
    if len(pids) != count:
        harness.fail(f"{name}: the ranks have the processes {pids}, expected {count}")
    os.kill(chance.choice(pids), signal.SIGKILL)
    begin = time.monotonic()
    process.communicate(timeout=10)
    if process.returncode == 0 or ranks.processes_of(executable):
        harness.fail(f"{name}: exit code {process.returncode}, and processes {ranks.processes_of(executable)}")
    complete = {".lock", "latest", *(path.name for path in saved.glob("checkpoint-*"))}
    during += any(path.name not in complete for path in saved.iterdir())
    print(f"{name}: from step {step} to {newest()[1]}, ended {time.monotonic() - begin:.1f} s after the kill")

more, step = newest()
if step < options["kills"] // 2:
    harness.fail(f"{options['kills']} runs made {step} steps")
ranks.run(mpirun, count, executable, *flags("last", step + 3, saved, *more))
whole = work / "whole"
ranks.run(mpirun, count, executable, *flags("whole", step + 3, whole))
for file in ("model.safetensors", "optimizer.safetensors"):
    one, other = ((directory / f"checkpoint-{step + 3}" / file).read_bytes() for directory in (saved, whole))
    if one != other:
        harness.fail(f"{file} differs from that of a run that was not killed")
if options["kills"] >= 20 and not during:
    harness.fail(f"none of {options['kills']} kills was during a save")
print(f"{options['kills']} kills, {during} of which left an incomplete checkpoint; {step + 3} steps have equal bits")
