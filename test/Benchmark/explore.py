#!/usr/bin/env python3
# ===- explore.py - Plans of kiln beside random legal plans -------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compares the plans of kilnc with random legal plans of the same training step.

    explore.py --kilnc=FILE --explorer=FILE --model=DIR --flags="--target=cuda --batch=8"
               --machine=NAME [--states] [--plans=20500] [--budgets=41] [--seeds=2]
               [--link=BYTES_PER_SECOND] [--markdown=FILE]

The explorer, test/Explore/kiln-explore.cpp, draws plans at random and varies the best ones for
each budget in turn. It applies and schedules each of them, so their bytes and predicted seconds are
those of a compiled program. A plan counts at every budget that it fits. For each budget, prints the
number of plans that fit, the time of kiln's plan divided by the time of the explorer's best plan,
and the same for kiln's lower bound. `--plans` is the number of plans for each of the seeds, which
are explored in parallel.
"""

import pathlib
import subprocess
import tempfile

from planned import argument_parser, plan, run, smallest_budget, spaced


def explore(options, budgets, work):
    """Returns the (bytes, seconds) of all plans of the explorer for `budgets`."""
    module = pathlib.Path(work) / "planned.mlir"
    done, _ = run(options, f"--machine={options.machine}", "--emit=planned", "-o", module)
    if done.returncode:
        raise SystemExit(done.stderr)
    command = [options.explorer, module, f"--machine={options.machine}", f"--plans={options.plans}"]
    command += [f"--budgets={','.join(map(str, budgets))}"]
    command += ["--states"] if options.states else []
    command += [f"--link={options.link}"] if options.link else []
    sides = [
        subprocess.Popen([*map(str, command), f"--seed={seed}"], stdout=subprocess.PIPE, text=True)
        for seed in range(1, options.seeds + 1)
    ]
    plans = []
    for side in sides:
        lines = side.communicate()[0].splitlines()
        if side.returncode:
            raise SystemExit(f"{options.explorer} failed")
        plans += [(int(height), float(seconds)) for height, _, seconds in map(str.split, lines)]
    return plans


def feasible(options, work, *flags):
    """Returns the plan, or exits with the error message of kilnc if there is none."""
    found, error = plan(options, work, *flags)
    if found is None:
        raise SystemExit(f"{flags}: {error}")
    return found


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--explorer", required=True)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--link", type=float)
    parser.add_argument("--states", action="store_true")
    parser.add_argument("--plans", type=int, default=20500)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budgets", type=int, default=41)
    options = parser.parse_args()
    offload = ["--offload=auto" if options.states else "--offload=none", f"--machine={options.machine}"]
    if options.link:
        offload.append(f"--simulate-link={options.link:g}B")
    rows = ["| budget | legal plans | kiln | explorer | kiln / explorer | bound / explorer |", "|---|---|---|---|---|---|"]
    worst, loosest = 0.0, 0.0
    with tempfile.TemporaryDirectory() as work:
        floor, whole = smallest_budget(options, work, *offload), feasible(options, work, *offload, "--memory-budget=16GB")
        budgets = spaced(floor, whole["device_arena_bytes"], options.budgets)
        chosen = [feasible(options, work, *offload, f"--memory-budget={budget}B") for budget in budgets]
        plans = explore(options, budgets, work)
        for budget, found in zip(budgets, chosen):
            legal = [seconds for height, seconds in plans if height <= budget]
            ms, bound = found["predicted_step_ms"], found["lower_bound_ms"]
            row = f"| {budget / 2**20:.1f} MiB | {len(legal)} | {ms:.3f} ms |"
            if legal:
                best = 1000 * min(legal)
                worst, loosest = max(worst, ms / best), max(loosest, bound / best)
                row += f" {best:.3f} ms | {ms / best:.4f} | {bound / best:.4f} |"
            else:
                row += " | | |"
            rows.append(row)
            print(row, flush=True)
    least = min(height for height, _ in plans)
    print(f"kiln's time is at most {worst:.4f} times the explorer's, and its bound at most {loosest:.4f} times")
    print(f"smallest budget: kiln {floor}, explorer {least}, ratio {floor / least:.4f}")
    if options.markdown:
        options.markdown.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
