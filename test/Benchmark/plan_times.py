#!/usr/bin/env python3
# ===- plan_times.py - Predicted and measured times of plans -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compiles a model with several sets of flags and measures the executables, interleaved.

    plan_times.py --model=DIR --batch=2 --seq=256 --common="--clip=off --dropout=0"
                  [--rounds=4] [--steps=3] [--group=4] [--markdown=FILE]
                  "none" "1.85GB: --memory-budget=1850MB" ...

A plan is "name: flags", or a name for the common flags alone. The others are compared with
the first plan: a ratio is the median over rounds of the plan's median divided by the first
plan's median in the same round, so that a drift of the machine cancels. In addition to the
first plan, at most --group plans are resident at once. The table also shows the planner's
predictions, and a budget that the planner rejects is a row, too.
"""

import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import peer_step


class Plan:
    def __init__(self, number, text, options, work):
        self.name, _, flags = text.partition(":")
        self.executable = work / f"plan{number}"
        command = ["kilnc", options.model, f"--batch={options.batch}", f"--seq={options.seq}"]
        command += [f"--max-threads={options.threads}", *shlex.split(options.common)]
        command += [*shlex.split(flags), "-o", self.executable]
        start = time.monotonic()
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        self.seconds = time.monotonic() - start
        self.refusal = result.stderr.strip() if result.returncode else ""
        if self.refusal:
            if result.returncode != 4:
                raise SystemExit(f"plan_times.py: {self.name}: {self.refusal}")
            return
        report = work / f"plan{number}.json"
        command[-2:] = ["--emit=plan", "-o", report]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        self.plan = json.loads(report.read_text())
        self.predicted = self.plan["predicted_step_ms"]
        self.ratios, self.samples = [], []


def run_group(first, group, options, work):
    """Measures plans beside the first one and returns their ratios to it per round."""
    sides = []
    try:
        for plan in [first, *group]:
            sides.append((plan, peer_step.Kiln(plan.executable, options, work)))
        for number in range(options.rounds):
            medians = []
            for plan, side in sides:
                side.run(options.steps)
                medians.append(statistics.median(side.last))
                plan.samples += side.last
                print(f"round {number + 1}: {plan.name} {medians[-1]:.0f} ms", file=sys.stderr)
            for (plan, _), median in zip(sides, medians):
                plan.ratios.append(median / medians[0])
    finally:
        for _, side in sides:
            side.close()


def table(plans, options):
    rows = [
        f"B={options.batch}, T={options.seq}, {options.threads} threads, `{options.common}`,"
        f" {options.rounds} rounds of {options.steps} steps",
        "",
        "| plan | device | host | predicted ms | bound | measured ms | predicted ratio |"
        " measured ratio | measured / predicted |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    first = plans[0]
    for plan in plans:
        if plan.refusal:
            rows.append(f"| {plan.name} | does not fit |")
            continue
        predicted = plan.predicted / first.predicted
        measured = statistics.median(plan.ratios)
        cells = [
            plan.name,
            f"{plan.plan['device_arena_bytes'] / 1e6:,.1f} MB",
            f"{plan.plan['host_arena_bytes'] / 1e6:,.1f} MB",
            f"{plan.predicted:.1f}",
            f"{plan.plan['lower_bound_ms'] / first.predicted:.3f}",
            f"{statistics.median(plan.samples):.1f}",
            f"{predicted:.3f}",
            f"{measured:.3f}",
            f"{measured / predicted:.3f}",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def main():
    parser = peer_step.make_parser(__doc__.splitlines()[0], batch=2, seq=256, rounds=4)
    parser.add_argument("--common", default="--clip=off --dropout=0 --eval=off")
    parser.add_argument("--group", type=int, default=4, help="plans that are resident")
    parser.add_argument("plans", nargs="+", metavar="NAME[: FLAGS]")
    options = peer_step.parse(parser)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        plans = [Plan(i, text, options, work) for i, text in enumerate(options.plans)]
        if plans[0].refusal:
            raise SystemExit("plan_times.py: the first plan has to fit")
        timed = [plan for plan in plans[1:] if not plan.refusal]
        for start in range(0, max(1, len(timed)), options.group):
            run_group(plans[0], timed[start : start + options.group], options, work)
    peer_step.show(table(plans, options), options)


if __name__ == "__main__":
    main()
