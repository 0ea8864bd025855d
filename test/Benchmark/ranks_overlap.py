#!/usr/bin/env python3
# ===- ranks_overlap.py - Overlap of sums over ranks with computation ---------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compares steps over simulated networks with the time that a full overlap takes.

    ranks_overlap.py --kilnc=kilnc [--model=DIR] [--ranks=2] [--batch=1] [--seq=256]
                     [--microbatches=1,2] [--shares=0.5,1,2] [--threads=1] [--steps=5] [--zero=0]
                     [--mpirun="mpirun --oversubscribe"] [--markdown=FILE]

A share S stands for a network on which the sums of a step take S times as long as its
computation. The computation is the step without a simulated network, less the time that it waits for
sums. The limit is max(computation, sums) + last bucket: the sum of the last bucket cannot overlap
with the backward pass. With --zero=3, sums include the gathers of parameters, the first of which
cannot overlap with the forward pass: the limit includes it, too. All figures are of rank 0, and
medians over --steps steps.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


class Step:
    """The measured steps of an executable."""

    def __init__(self, options, work, microbatches, rate=None):
        executable = work / "train"
        flags = [options.model, f"--batch={options.batch * microbatches}", f"--seq={options.seq}"]
        flags += [f"--microbatches={microbatches}", f"--mesh=dp={options.ranks}", "--clip=off"]
        flags += ["--dropout=0", "--eval=off", f"--max-threads={options.threads}", f"--zero={options.zero}"]
        if rate:
            flags.append(f"--simulate-network={rate:.0f}B/s")
        quiet = {"check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([options.kilnc, *flags, "-o", executable], **quiet)
        data, log, trace = work / "tokens.txt", work / "log.jsonl", work / "trace.json"
        data.write_text("to be or not to be, that is the question: " * 2000)
        log.unlink(missing_ok=True)
        command = [*shlex.split(options.mpirun), "-n", str(options.ranks), executable]
        command += [f"--data={data}", "--from-scratch", f"--steps={options.steps + 2}"]
        command += [f"--threads={options.threads}", f"--log={log}", f"--trace={trace}"]
        subprocess.run(command, stderr=subprocess.DEVNULL, **quiet)
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        steps = [entry for entry in entries if "step_ms" in entry][2:]
        self.milliseconds = statistics.median(entry["step_ms"] for entry in steps)
        self.waited = statistics.median(entry["sum_wait_ms"] for entry in steps)
        self.sent = next(e for e in entries if e.get("event") == "end")["sent_bytes_per_step"]
        events = json.loads(trace.read_text())["traceEvents"]
        # Of the bytes of a transfer, a rank sends twice as many if all ranks get the whole sum.
        weights = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
        # The row of the transfers of rank 0, not that of the commands that begin them.
        transfers = [e for e in events if e.get("cat") in weights and e["pid"] == 0 and e["tid"] != 0]
        transfers.sort(key=lambda event: event["ts"])
        self.buckets = [weights[event["cat"]] * event["args"]["bytes"] for event in transfers]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kilnc", required=True, type=pathlib.Path)
    parser.add_argument(
        "--model", type=pathlib.Path, default=HERE.parent / "Integration/models/gpt2-124m"
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1, help="of one micro-batch")
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--microbatches", default="1,2")
    parser.add_argument("--shares", default="0.5,1,2")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--zero", type=int, default=0, help="stage of ZeRO")
    parser.add_argument("--mpirun", default="mpirun --oversubscribe")
    parser.add_argument("--markdown", type=pathlib.Path, help="append the table to it")
    options = parser.parse_args()
    rows = [
        "| micro-batches | network, MB/s | computation, ms | sums, ms | without overlap, ms | limit, ms "
        "| step, ms | step / limit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for microbatches in map(int, options.microbatches.split(",")):
            free = Step(options, work, microbatches)
            computation = free.milliseconds - free.waited
            for share in map(float, options.shares.split(",")):
                rate = free.sent / (share * computation / 1e3)
                step = Step(options, work, microbatches, rate)
                sums = 1e3 * step.sent / rate
                apart = step.buckets[-1] + (step.buckets[0] if options.zero == 3 else 0)
                last = sums * apart / sum(step.buckets)
                limit = max(computation, sums) + last
                cells = [microbatches, f"{rate / 1e6:.0f}"]
                cells += [f"{x:.0f}" for x in (computation, sums, last, limit, step.milliseconds)]
                cells.append(f"{step.milliseconds / limit:.3f}")
                rows.append("| " + " | ".join(map(str, cells)) + " |")
                print(rows[-1], flush=True)
    text = "\n".join(rows) + "\n"
    print(text)
    if options.markdown:
        with options.markdown.open("a") as file:
            file.write("\n" + text)


if __name__ == "__main__":
    main()
