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
sums. There are two limits:

- full overlap: max(computation, sums) + last bucket, since the sum of the last bucket cannot overlap
  with the backward pass. With --zero=3, sums include the gathers of parameters, the first of which
  cannot overlap with the forward pass: the limit includes it, too. A step cannot reach this limit if
  sums take about as long as the computation, because the first gradient is complete only after the
  forward pass and a part of the backward pass.
- the program's: the commands of the step run in their order, each for its time in the trace, scaled so
  that their sum is the computation; a transfer starts when its command has run and the previous
  transfer has ended, and takes the time of its bytes on the network; a command that waits for a
  transfer runs when the transfer has ended.

All figures are of rank 0, and medians over --steps steps; the commands are those of the last step.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


# Of N ranks, each sends (N - 1) / N of these multiples of a transfer's bytes.
SENT_PER_BYTE = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}

# A wait of fewer microseconds is for a transfer that had ended.
SHORTEST_WAIT = 50


def sent_bytes(event):
    return SENT_PER_BYTE[event["cat"]] * event["args"]["bytes"]


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
        events = [e for e in events if e["ph"] == "X" and e["pid"] == 0]
        events.sort(key=lambda event: event["ts"])
        # The commands of rank 0 are on the row 0, and the transfers that they begin on another row.
        self.commands = [event for event in events if event["tid"] == 0]
        self.transfers = [e for e in events if e["cat"] in SENT_PER_BYTE and e["tid"] != 0]
        self.buckets = list(map(sent_bytes, self.transfers))

    def waited_for(self, wait, begun):
        """Returns the index of the transfer that ended with the wait, among the first `begun` ones."""
        end = wait["ts"] + wait["dur"]
        return min(range(begun), key=lambda i: abs(self.transfers[i]["ts"] + self.transfers[i]["dur"] - end))

    def limit_at(self, rate, milliseconds):
        """Returns the time of these commands if a transfer takes the time of its bytes at `rate`, and
        all commands that compute take `milliseconds` in total."""
        computing = [e for e in self.commands if e["cat"] not in {*SENT_PER_BYTE, "copy_wait"}]
        scale = milliseconds / sum(event["dur"] for event in computing)
        now = free = 0  # The ends of the last command and of the last transfer.
        ends = []  # Of the transfers that have begun.
        for event in self.commands:
            if event["cat"] in SENT_PER_BYTE:
                free = max(now, free) + 1e3 * sent_bytes(event) / rate
                ends.append(free)
            elif event["cat"] == "copy_wait":
                if event["dur"] > SHORTEST_WAIT and ends:
                    now = max(now, ends[self.waited_for(event, len(ends))])
            else:
                now += event["dur"] * scale
        return now


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
        "| micro-batches | network, MB/s | computation, ms | sums, ms | last bucket, ms | full overlap, ms "
        "| program's limit, ms | step, ms | step / full overlap | step / program's limit |",
        "|---|---|---|---|---|---|---|---|---|---|",
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
                full = max(computation, sums) + last
                # sent_bytes() is N / (N - 1) times what a rank sends, so the rate is scaled as well.
                program = step.limit_at(rate * sum(step.buckets) / step.sent, computation)
                cells = [microbatches, f"{rate / 1e6:.0f}"]
                cells += [f"{x:.0f}" for x in (computation, sums, last, full, program, step.milliseconds)]
                cells += [f"{step.milliseconds / limit:.3f}" for limit in (full, program)]
                rows.append("| " + " | ".join(map(str, cells)) + " |")
                print(rows[-1], flush=True)
    text = "\n".join(rows) + "\n"
    print(text)
    if options.markdown:
        with options.markdown.open("a") as file:
            file.write("\n" + text)


if __name__ == "__main__":
    main()
