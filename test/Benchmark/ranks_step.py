#!/usr/bin/env python3
# ===- ranks_step.py - Training steps of several ranks against PyTorch's ------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Measures data-parallel steps of kiln and of PyTorch, interleaved in one run.

    ranks_step.py --kiln=EXE [--ranks=2] [--one-rank=EXE] [--others=EXE,...] --batch=1 --seq=256
                  [--threads=1] [--rounds=4] [--steps=3] [--peers=ddp,fsdp] [--python=python3]
                  [--mpirun="mpirun --oversubscribe"] [--markdown=FILE]

All sides stay resident, as in peer_step.py, and a step is that of rank 0. EXE must have been
compiled for --batch and --seq, the part of one rank, with --mesh=dp=RANKS --clip=off --dropout=0.
The peers use gloo: ddp is DistributedDataParallel, fsdp shards parameters, gradients and optimizer
states (fully_shard). With the suffix +compiled, they use torch.compile and fused AdamW.

With --others, other executables of as many ranks take part, such as those of the stages of --zero.
With --one-rank, an executable without --mesh for the same --batch takes part: its step is the
work of one rank without communication.

The peak is the largest resident memory of a rank. For PyTorch, the resident memory after importing it is
subtracted; kiln's peak includes all libraries.
"""

import json
import os
import pathlib
import shlex
import signal
import socket
import statistics
import subprocess
import tempfile

import peer_step
from peer_step import HERE, Kiln, Side


def descendants(pid):
    """Returns the processes that `pid` has started, directly or not."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(child)]
    return found


def runs(pid, executable):
    try:
        return pathlib.Path(os.readlink(f"/proc/{pid}/exe")) == executable
    except OSError:  # The process has ended.
        return False


class KilnRanks(Kiln):
    """The ranks of a kiln executable, which a launcher has started."""

    def __init__(self, executable, options, work):
        self.executable = pathlib.Path(executable).resolve()
        launcher = [*shlex.split(options.mpirun), "-n", str(options.ranks)]
        super().__init__(self.executable, options, work, launcher)
        if len(self.pids()) != options.ranks:
            self.fail(f"{len(self.pids())} ranks are running, expected {options.ranks}")
        self.title = f"kiln '{self.executable.name}', {options.ranks} ranks"
        self.libraries = 0.0

    def pids(self):
        return [pid for pid in descendants(self.process.pid) if runs(pid, self.executable)]

    def close(self):
        self.peak = max(map(peer_step.peak_mib, self.pids()))
        self.send(signal.SIGKILL)
        self.process.wait()


class OneRank(Kiln):
    def __init__(self, executable, options, work):
        super().__init__(executable, options, work)
        self.title = "kiln, one rank"
        self.libraries = 0.0


class PeerRanks(Side):
    """Processes of torch_step.py that form one gloo group."""

    def __init__(self, name, options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        kind, _, suffix = name.partition("+")
        command = [options.python, HERE / "torch_step.py", f"--ranks={kind}"]
        if suffix == "compiled":
            command += ["--compile", "--fused"]
        elif suffix:
            raise SystemExit(f"ranks_step.py: no peer '{name}'")
        command += [f"--config={options.model / 'config.json'}"]
        command += [f"--{k}={getattr(options, k)}" for k in ("batch", "seq", "threads")]
        self.processes = []
        for rank in range(options.ranks):
            environment = dict(
                os.environ,
                OMP_NUM_THREADS=str(options.threads),
                RANK=str(rank),
                WORLD_SIZE=str(options.ranks),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
            )
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            super().__init__(name, command, options, env=environment, **pipes)
            self.processes.append(self.process)
        about = self.read()[0]
        self.title = f"PyTorch {about['torch']} {name}, {options.ranks} ranks ({about['blas']})"

    def pids(self):
        return [process.pid for process in self.processes]

    def read(self):
        """Returns the next line of each rank."""
        lines = [process.stdout.readline() for process in self.processes]
        if not all(lines):
            self.fail("PyTorch ended; its message is above")
        return list(map(json.loads, lines))

    def run(self, steps):
        self.begin_round()
        for _ in range(steps):
            before = self.clock()
            for process in self.processes:
                process.stdin.write("\n")
                process.stdin.flush()
            results = self.read()
            self.libraries = max(result["libraries_mib"] for result in results)
            self.keep(results[0]["step_ms"], before)

    def close(self):
        self.peak = max(map(peer_step.peak_mib, self.pids()))
        for process in self.processes:
            process.kill()
            process.wait()


def table(sides, options):
    kiln = sides[0]
    rows = [
        f"B={options.batch}, T={options.seq} on each rank, threads per rank: {options.threads}, f32",
        "",
        "| | step, ms | min to max | steps | dropped | peak above libraries, MiB | step, kiln / it "
        "| peak, kiln / it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for side in sides:
        samples, quiet = side.samples()
        peak = side.peak - side.libraries
        own = kiln.peak - kiln.libraries
        cells = [
            side.title,
            f"{statistics.median(samples):.0f}" + ("" if quiet else " (disturbed)"),
            f"{min(samples):.0f} to {max(samples):.0f}",
            len(samples),
            len(side.disturbed) if quiet else 0,
            f"{peak:.0f}",
            "" if side is kiln else f"{peer_step.ratio_of(kiln, side):.3f}",
            "" if side is kiln else f"{own / peak:.3f}",
        ]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows) + "\n"


def main():
    parser = peer_step.make_parser(__doc__.splitlines()[0], batch=1, seq=256, rounds=4)
    parser.set_defaults(threads=1)
    parser.add_argument("--kiln", required=True, metavar="EXE")
    parser.add_argument("--one-rank", metavar="EXE")
    parser.add_argument("--others", default="", metavar="EXE,...")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--peers", default="ddp")
    parser.add_argument("--python", default="python3", help="an interpreter with PyTorch")
    parser.add_argument("--mpirun", default="mpirun --oversubscribe", help="the launcher of kiln")
    options = peer_step.parse(parser)
    sides = []
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        try:
            sides.append(KilnRanks(options.kiln, options, work))
            for other in filter(None, options.others.split(",")):
                sides.append(KilnRanks(other, options, work))
            if options.one_rank:
                sides.append(OneRank(options.one_rank, options, work))
            for name in filter(None, options.peers.split(",")):
                sides.append(PeerRanks(name, options))
            peer_step.run_rounds(sides, options)
        finally:
            for side in sides:
                side.close()
    peer_step.show(table(sides, options), options)


if __name__ == "__main__":
    main()
