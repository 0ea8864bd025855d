# ===- budgets.py - Memory budgets and unchanged bits ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""budgets.py [--steps=20] KILNC MODEL WORK COUNT "flags": compiles the model for COUNT
memory budgets between its memory without a plan and the smallest feasible budget. For each
budget, the arena must not exceed the budget and must equal the predicted size,
--check-memory must pass, the predicted time must not decrease with a smaller budget, and all
steps must give the same bits as without a plan."""

import json
import re
import shlex
import sys

import harness

options, arguments = harness.leading_options(sys.argv[1:], steps=20)
kilnc, model, work, count, common = arguments
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
# The workspace of kiln's GEMM kernels, and with it the budgets, depend on the processor.
flags = ["--max-threads=2", "--gemm=blas", *shlex.split(common)]


def plan():
    path = work / "plan.json"
    harness.run([kilnc, model, *flags, "--emit=plan", "-o", path])
    return json.loads(path.read_text())


def train(name, *more):
    """Compiles and trains, and returns the plan, the log and the folder of the checkpoint."""
    report = work / f"{name}.json"
    executable = harness.compile_model(kilnc, model, work / name, *flags, *more, f"--report={report}")
    log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
    command = [executable, f"--data={work / 'train.bin'}", "--seed=5", "--threads=2"]
    harness.run([*command, f"--steps={options['steps']}", "--lr=0.003", f"--log={log}", f"--save={saved}"])
    harness.run([*command, "--check-memory"])
    return json.loads(report.read_text()), log, saved


highest = plan()["predicted_peak_bytes"]
refused = harness.run([kilnc, model, *flags, "--memory-budget=1KiB", "-o", work / "none"], expect=4)
found = re.search(r"smallest feasible budget is .* \((\d+) bytes\), set by '(.+)'", refused.stderr)
if not found:
    harness.fail(f"no smallest budget in: {refused.stderr}")
lowest = int(found.group(1))
below = [kilnc, model, *flags, f"--memory-budget={lowest - 1}", "-o", work / "none"]
harness.run(below, expect=4)
if (work / "none").exists():
    harness.fail("a refused compilation left a file")
if lowest >= highest:
    harness.fail(f"nothing to plan: {lowest} bytes at least, {highest} without a plan")

_, *plain = train("plain")
before = None
for number in range(int(count)):
    budget = highest - (highest - lowest) * number // (int(count) - 1)
    limit = f"--memory-budget={budget}"
    predicted, log, saved = train(f"budget{number}", limit)
    used = harness.events(log, "end")[0]["arena_bytes"]
    if used > budget or used != predicted["predicted_peak_bytes"]:
        harness.fail(f"{used} bytes used, {predicted['predicted_peak_bytes']} predicted, {budget} allowed")
    time = predicted["predicted_step_ms"]
    if before and time < before * (1 - 1e-12):
        harness.fail(f"{limit} is predicted to take {time} ms, a larger budget {before} ms")
    if predicted["lower_bound_ms"] <= 0:
        harness.fail(f"{limit} has a lower bound of {predicted['lower_bound_ms']} ms")
    before = time
    harness.require_equal_runs(f"no plan and {limit}", *plain, log, saved)
