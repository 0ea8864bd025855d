#!/usr/bin/env python3
# ===- ranks_network.py - Steps of ranks with a slow network ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compares ranks that sum gradients with ranks that send less, over simulated networks.

    ranks_network.py --kilnc=kilnc [--model=DIR] [--ranks=2] [--batch=1] [--seq=256]
                     [--networks=1GB/s,200MB/s,50MB/s] [--threads=1] [--steps=4] [--rounds=2]
                     [--variants=--sync-every=8,--compress-gradients=powersgd:4]
                     [--mpirun="mpirun --oversubscribe"]

The executables run in turns, `rounds` times each. The time of a step is the median over all rounds,
without the first two steps of a run, plus the part of an average of states (--sync-every=H) that
falls on one step. The bytes are those that rank 0 sends per step. All figures are of rank 0.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 2


class Variant:
    """An executable and its measured steps."""

    def __init__(self, options, work, network, flags):
        self.options, self.flags = options, flags
        self.work = work / f"{len(list(work.iterdir()))}"
        self.work.mkdir()
        fixed = [options.model, f"--batch={options.batch}", f"--seq={options.seq}", f"--mesh=dp={options.ranks}"]
        fixed += ["--clip=off", "--dropout=0", "--eval=off", f"--max-threads={options.threads}"]
        command = [options.kilnc, *fixed, f"--simulate-network={network}", *flags, "-o", self.work / "train"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.steps, self.averages = [], []
        # Ranks also average their states after the last step of a run.
        self.every = next((int(f.split("=")[1]) for f in flags if f.startswith("--sync-every=")), 1)

    def run(self):
        data, log = self.work / "tokens.txt", self.work / "log.jsonl"
        data.write_text("to be or not to be, that is the question: " * 2000)
        log.unlink(missing_ok=True)
        command = [*shlex.split(self.options.mpirun), "-n", str(self.options.ranks), self.work / "train"]
        command += [f"--data={data}", "--from-scratch", f"--steps={self.options.steps + SKIPPED}"]
        command += [f"--threads={self.options.threads}", f"--log={log}"]
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, **quiet)
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        self.steps += [entry["step_ms"] for entry in entries if "step_ms" in entry][SKIPPED:]
        self.averages += [entry["average_ms"] for entry in entries if "average_ms" in entry]
        end = next(entry for entry in entries if entry.get("event") == "end")
        self.sent = end["sent_bytes_per_step"] + end.get("sent_bytes_per_sync", 0) / self.every

    @property
    def milliseconds(self):
        average = statistics.median(self.averages) / self.every if self.averages else 0
        return statistics.median(self.steps) + average


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kilnc", required=True, type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=HERE.parent / "Integration/models/gpt2-124m")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1, help="of one rank")
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--networks", default="1GB/s,200MB/s,50MB/s")
    parser.add_argument("--variants", default="--sync-every=8,--compress-gradients=powersgd:4")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4, help="measured in each run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--mpirun", default="mpirun --oversubscribe")
    options = parser.parse_args()
    print("| network | flags | sent per step, MB | step, ms | step / step with sums |")
    print("|---|---|---|---|---|")
    for network in options.networks.split(","):
        with tempfile.TemporaryDirectory() as work:
            flags = [[], *([variant] for variant in options.variants.split(",") if variant)]
            variants = [Variant(options, pathlib.Path(work), network, each) for each in flags]
            for _ in range(options.rounds):
                for variant in variants:
                    variant.run()
            for variant in variants:
                name = f"`{' '.join(variant.flags)}`" if variant.flags else "sums of gradients"
                ratio = variant.milliseconds / variants[0].milliseconds
                cells = [network, name, f"{variant.sent / 1e6:.1f}", f"{variant.milliseconds:.0f}", f"{ratio:.3f}"]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
