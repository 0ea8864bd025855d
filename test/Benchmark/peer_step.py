#!/usr/bin/env python3
# ===- peer_step.py - A kiln training step against PyTorch's -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Measures the steps of a kiln executable and of PyTorch, interleaved in one run.

    peer_step.py --kiln=EXE --batch=4 --seq=64 [--threads=2] [--rounds=6]
                 [--steps=3] [--peers=eager,eager-openblas,compiled]
                 [--python=python3] [--openblas=LIB] [--lora=r=8,alpha=16,targets=c_attn] [--markdown=FILE]

All sides stay resident: in a round, each side runs --steps steps while the others are
stopped, so that a drift of the machine affects all of them equally. A step during which
other processes used more than --quiet CPUs is dropped. EXE must have been compiled for the
same --batch and --seq from --model. The peers train in f32 (except +bf16) without dropout and
clipping (except +clip), so compare an EXE compiled with --clip=off --dropout=0.

  eager            default AdamW and scaled_dot_product_attention
  eager-matmul     the same with attention as separate matmuls
  eager-openblas   eager, with sgemm_ bound to --openblas by LD_PRELOAD
  compiled         torch.compile and fused AdamW
  checkpoint       eager, saving only the input of each block
  selective        eager, also saving the results of matmuls and attention
  budget=X         compiled, with an activation_memory_budget from 0 to 1
  NAME+clip        any of these, clipping the global gradient norm to 1
  NAME+bf16        any of these, with autocast to bf16
  NAME+bf16-weights  any of these, with autocast, and with frozen weights stored in bf16

With --lora, the peers train adapters of the library peft with these options, so compare an
EXE compiled with the same --lora.

Ratios are relative to the first --kiln; a second one is measured like the peers. Without
--kiln, only the peers are measured.
"""

import argparse
import array
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """Returns the CPU seconds of all processes since boot."""
    with open("/proc/stat") as file:
        v = [int(x) for x in file.readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / TICK


def process_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def peak_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def wait_until_quiet(options):
    """Waits for half a second without other activity, at most for --patience seconds."""
    while time.monotonic() < options.deadline:
        before, start = machine_seconds(), time.monotonic()
        time.sleep(0.5)
        used, wall = machine_seconds() - before, time.monotonic() - start
        if used <= options.quiet * wall + 1 / TICK:
            return


class Side:
    """A process that trains; `rounds` and `disturbed` contain milliseconds of steps."""

    def __init__(self, name, command, options, **popen):
        self.name = name
        self.options = options
        self.rounds, self.disturbed, self.last = [], [], []
        self.process = subprocess.Popen(list(map(str, command)), **popen)

    def pids(self):
        """Returns the processes that train."""
        return [self.process.pid]

    def fail(self, what):
        raise SystemExit(f"peer_step.py: {self.name}: {what}")

    def clock(self):
        used = sum(map(process_seconds, self.pids()))
        return machine_seconds() - used, time.monotonic()

    def begin_round(self):
        wait_until_quiet(self.options)
        self.rounds.append([])
        self.last = []

    def keep(self, milliseconds, before):
        """Records a step that started at clock reading `before` and has just ended."""
        self.last.append(milliseconds)
        used, wall = (b - a for a, b in zip(before, self.clock()))
        # Tolerates two ticks, by which /proc/stat may be late.
        if used <= self.options.quiet * wall + 2 / TICK:
            self.rounds[-1].append(milliseconds)
        else:
            self.disturbed.append(milliseconds)

    def samples(self):
        """Returns the undisturbed steps, or all steps if fewer than three are undisturbed."""
        quiet = [ms for part in self.rounds for ms in part]
        return (quiet, True) if len(quiet) >= 3 else (quiet + self.disturbed, False)

    def close(self):
        self.peak = max(map(peak_mib, self.pids()))
        self.process.kill()
        self.process.wait()


class Peer(Side):
    """torch_step.py, which runs one step per line of its standard input."""

    def __init__(self, name, options):
        command = [options.python, HERE / "torch_step.py"]
        command += [f"--config={options.model / 'config.json'}"]
        command += [f"--{k}={getattr(options, k)}" for k in ("batch", "seq", "threads")]
        environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
        if options.lora:
            command.append(f"--lora={options.lora}")
        title = name
        suffixes = {"+clip": ["--clip=1"], "+bf16-weights": ["--bf16", "--bf16-weights"], "+bf16": ["--bf16"]}
        for suffix, flags in suffixes.items():
            if suffix in name:
                name = name.replace(suffix, "")
                command += flags
        if name == "eager-matmul":
            command.append("--attention=matmul")
        elif name == "compiled":
            command += ["--compile", "--fused"]
        elif name in ("checkpoint", "selective"):
            command.append(f"--memory={name}")
        elif name.startswith("budget="):
            command += ["--compile", "--fused", f"--memory={name[7:]}"]
        elif name == "eager-openblas":
            if not options.openblas:
                raise SystemExit("peer_step.py: eager-openblas needs --openblas=LIB")
            environment["LD_PRELOAD"] = options.openblas
        elif name != "eager":
            raise SystemExit(f"peer_step.py: no peer '{name}'")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        super().__init__(title, command, options, env=environment, **pipes)
        about = self.read()
        library = "PyTorch with PEFT" if options.lora else "PyTorch"
        self.title = f"{library} {about['torch']} {title} ({about['blas']})"

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.fail("PyTorch ended; its message is above")
        return json.loads(line)

    def run(self, steps):
        self.begin_round()
        for _ in range(steps):
            before = self.clock()
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            step = self.read()
            self.libraries = step["libraries_mib"]
            self.keep(step["step_ms"], before)


class Kiln(Side):
    """A kiln executable, stopped and continued by signals."""

    def __init__(self, executable, options, work, launcher=()):
        self.log = work / f"{len(list(work.iterdir()))}.jsonl"
        self.log.touch()
        self.reader = self.log.open()
        data = work / "tokens.bin"
        if not data.exists():
            write_tokens(data, options)
        command = [*launcher, executable, f"--data={data}", "--steps=1000000", "--from-scratch"]
        command += [f"--threads={options.threads}", f"--log={self.log}"]
        environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
        streams = {"stdout": subprocess.DEVNULL, "env": environment}
        super().__init__("kiln", command, options, **streams)
        self.title = f"kiln ({pathlib.Path(executable).name})"
        for _ in range(2):
            self.next_step()
        self.send(signal.SIGSTOP)

    def send(self, number):
        for pid in self.pids():
            os.kill(pid, number)

    def next_step(self):
        """Waits for the log line of a step and returns its milliseconds."""
        line = ""
        while True:
            line += self.reader.readline()
            if line.endswith("\n"):
                entry, line = json.loads(line), ""
                if "step_ms" in entry:
                    return entry["step_ms"]
            elif self.process.poll() is not None:
                self.fail(f"ended with exit code {self.process.returncode}")
            else:
                time.sleep(0.002)

    def run(self, steps):
        self.begin_round()
        self.send(signal.SIGCONT)
        self.next_step()  # Skips the step that the signal interrupted.
        for _ in range(steps):
            before = self.clock()
            self.keep(self.next_step(), before)
        self.send(signal.SIGSTOP)


def write_tokens(path, options):
    """Writes an llm.c token file, which stores 16-bit tokens, with enough tokens for a hundred
    steps, after which it wraps."""
    config = json.loads((options.model / "config.json").read_text())
    vocabulary = min(config["vocab_size"], 2**16)
    count = 100 * options.batch * options.seq + 1
    ids = [i * 2654435761 % 2**32 * vocabulary >> 32 for i in range(count)]
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    path.write_bytes(header.tobytes() + array.array("H", ids).tobytes())


def ratio_of(kiln, peer):
    """Returns the median over rounds of the ratio of kiln's median to the peer's."""
    pairs = [(a, b) for a, b in zip(kiln.rounds, peer.rounds) if a and b]
    if not pairs:
        return statistics.median(kiln.samples()[0]) / statistics.median(peer.samples()[0])
    return statistics.median(statistics.median(a) / statistics.median(b) for a, b in pairs)


def table(sides, options):
    kiln = sides[0] if sides[0].name == "kiln" else None
    rows = [
        f"B={options.batch}, T={options.seq}, {options.threads} threads, f32",
        "",
        "| | step, ms | min to max | steps | dropped | peak RSS, MiB | first / it |",
        "|---|---|---|---|---|---|---|",
    ]
    for side in sides:
        samples, quiet = side.samples()
        ratio = f"{ratio_of(kiln, side):.3f}" if kiln and side is not kiln else ""
        cells = [
            side.title,
            f"{statistics.median(samples):.0f}" + ("" if quiet else " (disturbed)"),
            f"{min(samples):.0f} to {max(samples):.0f}",
            len(samples),
            len(side.disturbed) if quiet else 0,
            f"{side.peak:.0f}",
            ratio,
        ]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows) + "\n"


def run_rounds(sides, options):
    for number in range(options.rounds):
        for side in sides:
            side.run(options.steps)
            times = ", ".join(f"{ms:.0f}" for ms in side.last)
            print(f"round {number + 1}: {side.name} {times} ms", file=sys.stderr)


def make_parser(description, batch, seq, rounds):
    """Returns a parser of the options shared with plan_times.py, which has other defaults."""
    parser = argparse.ArgumentParser(description=description)
    default = HERE.parent / "Integration/models/gpt2-124m"
    parser.add_argument("--model", type=pathlib.Path, default=default)
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--seq", type=int, default=seq)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--steps", type=int, default=3, help="of each side in a round")
    parser.add_argument("--quiet", type=float, default=0.08, help="CPUs others may use")
    parser.add_argument(
        "--patience",
        type=float,
        default=0,
        help="seconds of the whole run to wait, before each turn, for an idle machine",
    )
    parser.add_argument("--markdown", type=pathlib.Path, help="append the table to it")
    return parser


def parse(parser):
    options = parser.parse_args()
    options.deadline = time.monotonic() + options.patience
    return options


def show(text, options):
    print(text)
    if options.markdown:
        with options.markdown.open("a") as file:
            file.write("\n" + text)


def main():
    parser = make_parser(__doc__.splitlines()[0], batch=4, seq=64, rounds=6)
    parser.add_argument("--kiln", action="append", default=[], metavar="EXE")
    parser.add_argument("--peers", default="eager,compiled")
    parser.add_argument("--python", default="python3", help="an interpreter with PyTorch")
    parser.add_argument("--lora", help="options of adapters that the peers train")
    parser.add_argument("--openblas", help="the library that the executable uses")
    options = parse(parser)
    sides = []
    with tempfile.TemporaryDirectory() as work:
        try:
            for executable in options.kiln:
                sides.append(Kiln(executable, options, pathlib.Path(work)))
            for name in filter(None, options.peers.split(",")):
                sides.append(Peer(name, options))
            if not sides:
                parser.error("nothing to time: give --kiln or --peers")
            run_rounds(sides, options)
        finally:
            for side in sides:
                side.close()
    show(table(sides, options), options)


if __name__ == "__main__":
    main()
