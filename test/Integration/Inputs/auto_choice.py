# ===- auto_choice.py - Choice of the number of micro-batches ----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""auto_choice.py WORK: plans a model with many layers for every number of micro-batches.

Checks that --microbatches=auto chooses the number whose plan is the fastest, up to the 0.5 %
that the planner does not pursue, and that it skips some of the other numbers.
"""

import json
import pathlib
import subprocess
import sys

import harness

work = pathlib.Path(sys.argv[1])
model = work / "model"
model.mkdir(parents=True, exist_ok=True)
config = {"model_type": "gpt2", "vocab_size": 512, "n_positions": 128, "n_embd": 64, "n_layer": 40, "n_head": 2}
(model / "config.json").write_text(json.dumps(config))


def plan(count, budget, *flags):
    """Returns the plan for a number of micro-batches, or None if none fits the budget."""
    out = work / "plan.json"
    command = ["kilnc", model, "--batch=8", "--seq=128", "--max-threads=1", f"--microbatches={count}"]
    command += [f"--memory-budget={budget}", "--emit=plan", *flags, "-o", out]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 4):
        harness.fail(done.stderr)
    return None if done.returncode else json.loads(out.read_text())


skipped = 0
for budget in sys.argv[2:]:
    plans = {count: plan(count, budget) for count in (1, 2, 4, 8)}
    times = {count: found["predicted_step_ms"] for count, found in plans.items() if found}
    remarks = work / "remarks.yaml"
    chosen = plan("auto", budget, f"--remarks={remarks}")
    if not chosen:
        harness.fail(f"{budget}: no plan fits, but {times} do")
    least = min(times.values())
    if chosen["predicted_step_ms"] > 1.005 * least:
        harness.fail(f"{budget}: chose {chosen['microbatches']}, {chosen['predicted_step_ms']} ms of {times}")
    text = remarks.read_text()
    skipped += text.count("according to an estimate") + text.count("no plan that fits is faster")
    print(f"{budget}: {chosen['microbatches']} micro-batches, as the fastest of {len(times)} plans")
if not skipped:
    harness.fail("every number of micro-batches was planned")
print(f"{skipped} plans skipped")
