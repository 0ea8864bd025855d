# ===- ranks_torchrun.py - Ranks that a launcher without MPI starts ----------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_torchrun.py STAND_IN MPIRUN KILNC MODEL WORK: starts ranks of --target=cuda as torchrun does,
on stand-ins of CUDA's libraries, and checks their results, the choice of GPUs, and what happens if
a rank cannot start, ends or hangs."""

import os
import signal
import socket
import subprocess
import sys
import time

import harness
import ranks
import stand_in

libraries, mpirun, kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
flags = ["--seq=8", "--max-threads=1"]


def free_port():
    """Returns a port, which torchrun would occupy, whose successor is free."""
    for port in range(21000 + os.getpid() % 8000, 32000, 7):
        with socket.socket() as probe:
            try:
                probe.bind(("", port + 1))
            except OSError:
                continue
            return port
    harness.fail("no port is free")


def start(executable, *arguments, size=2, gpus=2, **more):
    """Starts the ranks with the environment of torchrun. The value of a variable may be a list with
    one value for each rank."""
    port = free_port()
    command = [str(executable), f"--data={work / 'train.bin'}", "--lr=0.01", "--seed=5", *arguments]
    harness.show(command)
    processes = []
    for rank in range(size):
        own = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": size,
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": port,
            "TORCHELASTIC_RUN_ID": "test",
        }
        own.update({name: value[rank] if isinstance(value, list) else value for name, value in more.items()})
        env = stand_in.environment(libraries, gpus)
        env.update({name: str(value) for name, value in own.items()})
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        )
    return processes


def finish(processes, expect=0):
    """Waits for the end of all ranks. Returns the lines of stderr of each rank."""
    lines = []
    for rank, process in enumerate(processes):
        try:
            _, errors = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            for other in processes:
                other.kill()
            harness.fail(f"rank {rank} does not end")
        if expect is not None and process.returncode != expect:
            harness.fail(f"rank {rank} ended with {process.returncode}, expected {expect}: {errors}")
        lines.append([line for line in errors.splitlines() if not line.startswith("warning: ")])
    return lines


def require_one_line(what, lines, *texts):
    """Requires that all ranks together print one line that contains the texts."""
    found = [line for rank in lines for line in rank]
    if len(found) != 1 or not all(text in found[0] for text in texts):
        harness.fail(f"{what}: expected one line with {texts}, found {found}")
    print(f"{what}: {found[0]}")


(work / "cuda").mkdir()
(work / "cpu").mkdir()
count, executable = stand_in.compile_mesh(kilnc, model, work / "cuda", "dp=2", 4, libraries, *flags)
_, plain = ranks.compile_mesh(kilnc, model, work / "cpu", "dp=2", 4, *flags)

# The results are those of ranks that MPI connects.
log = work / "torchrun.jsonl"
lines = finish(start(executable, "--steps=4", f"--log={log}", f"--save={work / 'saved'}"))
if any(lines):
    harness.fail(f"the ranks print {lines}")
other = work / "mpirun.jsonl"
arguments = [f"--data={work / 'train.bin'}", "--lr=0.01", "--seed=5", "--steps=4", f"--log={other}"]
harness.run(
    ranks.command(mpirun, count, executable, *arguments, f"--save={work / 'other'}"),
    env=stand_in.environment(libraries, 2),
)
harness.require_equal_runs("ranks by TCP and by MPI", log, work / "saved", other, work / "other")

# Each process has a GPU of its own, which it calls the first one.
finish(start(executable, "--steps=1", gpus=1, KILN_STAND_IN_FIRST_GPU=[0, 1]))

require_one_line(
    "one GPU",
    finish(start(executable, "--steps=1", gpus=1), expect=2),
    "error: ranks 0 and 1 of one machine have the same GPU",
    "CUDA_VISIBLE_DEVICES",
)
require_one_line(
    "too few GPUs",
    finish(start(executable, "--steps=1", LOCAL_RANK=[0, 2]), expect=2),
    "error: rank 1: this rank has the number 2 on its machine, but the CUDA driver reports only 2 GPUs (0 to 1)",
)
require_one_line(
    "the CPU",
    finish(start(plain, "--steps=1"), expect=2),
    "error: RANK and WORLD_SIZE are set, as by torchrun, but ranks of kiln without GPUs find each "
    "other by MPI: start them with mpirun -n 2",
)
require_one_line(
    "another number of ranks",
    finish(start(executable, "--steps=1", size=3), expect=2),
    "this executable was compiled for 2 ranks (--mesh=dp=2), but 3 were started",
)
require_one_line(
    "a file that is missing",
    finish(start(executable, "--steps=1", f"--init={work / 'nothing'}"), expect=3),
    "error: ",
    "nothing",
)


def interrupt(what, number, texts, *arguments, **more):
    """Sends a signal to rank 1 while it trains. Rank 0 must end soon, with one line that contains one
    of the texts."""
    log = work / f"{what}.jsonl"
    processes = start(executable, "--steps=1000000", f"--log={log}", *arguments, **more)
    ranks.wait_for_steps(log, 3, processes[0])
    begin = time.monotonic()
    processes[1].send_signal(number)
    try:
        _, errors = processes[0].communicate(timeout=60)
    finally:
        processes[1].kill()
        processes[1].communicate()
    lines = errors.splitlines()
    if processes[0].returncode != 1 or len(lines) != 1 or not any(text in lines[0] for text in texts):
        harness.fail(f"{what}: exit code {processes[0].returncode}, expected 1 and one of {texts}: {lines}")
    print(f"{what}: after {time.monotonic() - begin:.1f} s: {lines[0]}")


lost = "the connection to rank 1 has failed"
interrupt("killed", signal.SIGKILL, [lost, "NCCL's collective failed: remote process exited"])
interrupt("killed silently", signal.SIGKILL, [lost], KILN_STAND_IN_NCCL_IS_SILENT=1)
interrupt(
    "stopped",
    signal.SIGSTOP,
    ["has not ended for 2 s (--peer-timeout)", "nothing has arrived for 2 s (--peer-timeout)"],
    "--peer-timeout=2",
)
