# ===- lossy_training.py - Training with estimated gradients ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""lossy_training.py KILNC MODEL WORK DATA.txt STEPS TOLERANCE "flags" "lossy flags"...:
trains with the flags alone and with each of the lossy flags. The mean losses of the last
tenth of the steps may differ by the relative error TOLERANCE. The loss must have decreased
to 60 %, which shows that the model has learned."""

import shlex
import sys

import harness

kilnc, model, work, data, steps, tolerance, common, *variants = sys.argv[1:]
work = harness.fresh_directory(work)
tail = max(1, int(steps) // 10)


def train(name, flags):
    executable = harness.compile_model(kilnc, model, work / name, *shlex.split(common), *shlex.split(flags))
    log = work / f"{name}.jsonl"
    harness.run(
        [executable, f"--data={data}", f"--steps={steps}", "--from-scratch", "--seed=3", "--lr=0.0005",
         "--warmup-steps=20", f"--log={log}"]
    )
    losses = [step["loss"] for step in harness.events(log, "step")]
    return losses[0], sum(losses[-tail:]) / tail


first, exact = train("exact", "")
if not exact < 0.6 * first:
    harness.fail(f"the exact loss only falls from {first} to {exact}")
for number, flags in enumerate(variants):
    _, loss = train(f"lossy{number}", flags)
    difference = loss / exact - 1
    print(f"{flags}: {loss:.4f} against {exact:.4f}, {100 * difference:+.2f} %", flush=True)
    if not abs(difference) <= float(tolerance):
        harness.fail(f"{flags}: the loss is off by {100 * difference:.2f} %")
