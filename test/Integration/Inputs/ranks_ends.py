# ===- ranks_ends.py - How runs of several ranks end -------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_ends.py [--mesh=dp=2] MPIRUN KILNC MODEL WORK: of two ranks, a rank that is killed ends all ranks, and so does one
that is stopped, after --peer-timeout. A signal to one rank, or to mpirun, makes all ranks stop
after the same step and save one checkpoint, from which a run continues with the same bits. A rank
that cannot read its data ends all ranks with one error line."""

import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

import harness
import ranks

options, arguments = harness.leading_options(sys.argv[1:], mesh="dp=2")
mpirun, kilnc, model, work = arguments
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
executable = harness.compile_model(
    kilnc,
    model,
    work / "train",
    "--batch=2",
    "--seq=16",
    "--max-threads=1",
    "--eval=off",
    f"--mesh={options['mesh']}",
)
LONG = 1_000_000


def flags(name, steps):
    return [
        f"--data={work / 'train.bin'}",
        f"--steps={steps}",
        "--lr-schedule=constant",
        "--seed=3",
        f"--log={work / name}.jsonl",
        f"--save={work / name}.saved",
    ]


def end(name, process, limit):
    """Waits for the end of a run, and returns its exit code and its messages."""
    begin = time.monotonic()
    try:
        _, message = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        for pid in ranks.processes_of(executable):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        harness.fail(f"{name}: the run did not end within {limit} s")
    print(f"{name}: ended after {time.monotonic() - begin:.1f} s with exit code {process.returncode}")
    left = ranks.processes_of(executable)
    if left:
        harness.fail(f"{name}: processes {left} are left")
    return process.returncode, message


def begin(name, *extra):
    process = ranks.start(mpirun, 2, executable, *flags(name, LONG), *extra)
    ranks.wait_for_steps(work / f"{name}.jsonl", 5, process)
    pids = ranks.processes_of(executable)
    if len(pids) != 2:
        harness.fail(f"{name}: the ranks have the processes {pids}, expected two")
    return process, pids


for rank in range(2):
    name = f"killed{rank}"
    process, pids = begin(name)
    os.kill(pids[rank], signal.SIGKILL)
    code, _ = end(name, process, 10)
    if code == 0:
        harness.fail(f"{name}: the exit code is 0")

process, pids = begin("halted", "--peer-timeout=2")
os.kill(pids[1], signal.SIGSTOP)
code, message = end("halted", process, 20)
if code != 1 or "error: rank 0: " not in message or "(--peer-timeout)" not in message:
    harness.fail(f"halted: exit code {code}, {message}")

# A check of memory also ends on all ranks together.
process = ranks.start(mpirun, 2, executable, "--check-memory")
catches = 0
while process.poll() is None and catches < 2:
    catches = 0
    for pid in ranks.processes_of(executable):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        caught = int(status.split("SigCgt:")[1].split()[0], 16)
        catches += caught >> (signal.SIGTERM - 1) & 1
pids = ranks.processes_of(executable)
if len(pids) != 2:
    harness.fail(f"the check of memory ended too early: {process.poll()}")
os.kill(pids[1], signal.SIGTERM)
code, message = end("check", process, 60)
if code != 75 or "failed" in message:
    harness.fail(f"--check-memory: exit code {code}, expected 75: {message}")

# Time for which both ranks are suspended is not time for which one of them does not answer, or the
# MPI library does not return (10 s in addition to the limit).
process, pids = begin("suspended", "--peer-timeout=1")
for pid in pids:
    os.kill(pid, signal.SIGSTOP)
time.sleep(13)
for pid in pids:
    os.kill(pid, signal.SIGCONT)
time.sleep(2)
os.kill(pids[0], signal.SIGTERM)
code, message = end("suspended", process, 20)
if code != 75:
    harness.fail(f"suspended: exit code {code}, expected 75: {message}")

# Each rank has its own copy of the data, and one of them is cut off during the run.
for rank in range(2):
    name = f"cut{rank}"
    for each in range(2):
        directory = work / f"{name}.{each}"
        directory.mkdir()
        shutil.copy(work / "train.bin", directory / "train.bin")
    arguments = ["--data=train.bin", *flags(name, LONG)[1:]]
    script = f"cd {shlex.quote(str(work / name))}.$OMPI_COMM_WORLD_RANK && exec {shlex.join([str(executable), *arguments])}"
    process = ranks.start(mpirun, 2, "sh", "-c", script)
    ranks.wait_for_steps(work / f"{name}.jsonl", 5, process)
    os.truncate(work / f"{name}.{rank}" / "train.bin", 1030)
    code, message = end(name, process, 10)
    prefix = "error: rank 1: " if rank == 1 else "error: "
    lines = ranks.own_lines(message)
    if code == 0 or len(lines) != 1 or not lines[0].startswith(prefix) or "train.bin" not in lines[0]:
        harness.fail(f"{name}: exit code {code}, {lines}, expected one line with {prefix!r}")
    if harness.events(work / f"{name}.jsonl", "end")[-1]["reason"] != "failed":
        harness.fail(f"{name}: the log does not end with a failure")

signals = [("rank0", signal.SIGTERM), ("rank1", signal.SIGTERM), ("mpirun", signal.SIGTERM), ("mpirun", signal.SIGINT)]
for number, (receiver, sent) in enumerate(signals):
    name = f"stopped{number}"
    process, pids = begin(name)
    os.kill(process.pid if receiver == "mpirun" else pids[int(receiver[-1])], sent)
    code, message = end(name, process, 20)
    done = int(harness.newest_checkpoint(work / f"{name}.saved").name[11:])
    saved = list((work / f"{name}.saved").glob("checkpoint-*"))
    if code == 0 or len(saved) != 1:
        harness.fail(f"{name}: exit code {code}, checkpoints {saved}, {message}")
    if f"note: stopped by a signal after step {done}; continue with --resume=" not in message:
        harness.fail(f"{name}: {message}")
    if receiver != "mpirun" and code != 75:
        harness.fail(f"{name}: exit code {code}, expected 75")
    if harness.events(work / f"{name}.jsonl", "end")[-1]["reason"] != "stopped":
        harness.fail(f"{name}: the log does not end with a stop")
    # Continue for some steps, and compare with a run that was not stopped.
    total = done + 4
    resumed = f"--resume={work / name}.saved"
    ranks.run(mpirun, 2, executable, *flags(name, total), resumed)
    whole = f"whole{number}"
    ranks.run(mpirun, 2, executable, *flags(whole, total))
    harness.require_equal_runs(
        name, work / f"{whole}.jsonl", work / f"{whole}.saved", work / f"{name}.jsonl", work / f"{name}.saved"
    )
