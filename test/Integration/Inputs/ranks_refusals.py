# ===- ranks_refusals.py - Ranks that do not fit together --------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_refusals.py MPIRUN KILNC MODEL WORK: ranks that were started in a wrong way, or that
differ, are refused before the first step, in one line of the first rank."""

import shlex
import shutil
import sys

import harness
import ranks

mpirun, kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
common = ["--batch=2", "--seq=16", "--max-threads=1", "--eval=off"]
two = harness.compile_model(kilnc, model, work / "two", *common, "--mesh=dp=2")
other = harness.compile_model(kilnc, model, work / "other", *common, "--mesh=dp=2", "--dropout=0.1")
one = harness.compile_model(kilnc, model, work / "one", *common)

# Each rank starts in a directory of its own, so that the same flags name different files.
for rank in range(2):
    directory = work / f"rank{rank}"
    directory.mkdir()
    shutil.copy(work / "train.bin", directory / "train.bin")
    shutil.copy(work / "model.safetensors", directory / "model.safetensors")
shutil.copy(work / "train.bin", work / "rank0" / "only0.bin")
for rank in range(2):
    data = bytearray((work / "train.bin").read_bytes())
    data[-2] ^= rank
    (work / f"rank{rank}" / "differs.bin").write_bytes(data)
    weights = bytearray((work / "model.safetensors").read_bytes())
    weights[-4] ^= rank
    (work / f"rank{rank}" / "differs.safetensors").write_bytes(weights)


def check(what, command, expected, code=2, **options):
    """Runs a command, which must fail with exactly one line, which contains `expected`."""
    done = harness.run(command, expect=code, timeout=60, **options)
    lines = ranks.own_lines(done.stderr)
    if len(lines) != 1 or not lines[0].startswith("error: ") or expected not in lines[0]:
        harness.fail(f"{what}: stderr is {lines}, expected one error with {expected!r}")
    if "step" in done.stdout:
        harness.fail(f"{what}: the run has steps: {done.stdout}")
    print(f"{what}: {lines[0]}")


def started(count, *arguments):
    return ranks.command(mpirun, count, *arguments)


def in_own_directory(*arguments):
    """Returns the command of two ranks, each in its own directory."""
    text = shlex.join(map(str, arguments))
    script = f"cd {shlex.quote(str(work))}/rank$OMPI_COMM_WORLD_RANK && exec {text}"
    return started(2, "sh", "-c", script)


flags = [f"--data={work / 'train.bin'}", "--steps=2"]
clean = ranks.environment()
check("no launcher", [two, *flags], "start it with mpirun -n 2 " + str(two), env=clean)
check("three ranks", started(3, two, *flags), "compiled for 2 ranks (--mesh=dp=2), but 3 were", env=clean)
check("one rank of two", started(1, two, *flags), "compiled for 2 ranks (--mesh=dp=2), but one", env=clean)
check("a program of one rank", started(2, one, *flags), "compile it with --mesh=dp=2", env=clean)
torchrun = {**clean, "RANK": "0", "WORLD_SIZE": "2"}
check("torchrun", [two, *flags], "mpirun -n 2", env=torchrun)
if ranks.own_lines(harness.run([two, *flags], expect=2, env={**torchrun, "RANK": "1"}).stderr):
    harness.fail("another process of torchrun repeats the message")
check(
    "another executable",
    [*started(1, two, *flags), ":", "-n", "1", str(other), *flags],
    "the programs of rank 1 differ from those of rank 0",
    env=clean,
)
check(
    "other flags",
    [*started(1, two, *flags, "--seed=1"), ":", "-n", "1", str(two), *flags],
    "the flags of rank 1 differ from those of rank 0",
    env=clean,
)
check(
    "other data",
    in_own_directory(two, "--data=differs.bin", "--steps=2"),
    "the training tokens of rank 1 differ from those of rank 0",
    env=clean,
)
check(
    "data on one rank only",
    in_own_directory(two, "--data=only0.bin", "--steps=2"),
    "error: rank 1: ",
    code=3,
    env=clean,
)
check(
    "other weights",
    in_own_directory(two, "--data=train.bin", "--steps=2", "--init=differs.safetensors"),
    "before the first step, the states of rank 1 differ from those of rank 0",
    env=clean,
)
check("an unknown flag", started(2, two, "--no-such-flag=1"), "no-such-flag", env=clean)
check("a flag of several ranks", [one, *flags, "--peer-timeout=5"], "was compiled for one rank", env=clean)
check(
    "lockstep", started(2, two, *flags, "--lockstep=3"), "--lockstep is not supported with", env=clean
)
harness.run(in_own_directory(two, "--data=train.bin", "--steps=2", "--init=model.safetensors"), env=clean)
harness.run(
    [*started(1, two, *flags, "--peer-timeout", "7"), ":", "-n", "1", str(two), *flags, "--peer-timeout=8"],
    env=clean,
)
harness.run(started(2, two, "--describe"), env=clean)
harness.run([two, "--describe"], env=clean)
