# ===- lion.py - Lion against its formula ------------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""lion.py KILNC MODEL WORK: trains with --optimizer=lion and recomputes every step with the
formula of the paper from the gradients that the executable writes."""

import sys

import harness
from compare import read_safetensors

kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
BETA1, BETA2, DECAY, RATE, STEPS = 0.8, 0.95, 0.1, 0.01, 3
executable = harness.compile_model(
    kilnc, model, work / "train", f"--optimizer=lion:beta1={BETA1},beta2={BETA2},weight_decay={DECAY},decay=all",
    "--precision=fp64", "--clip=off", "--emit-gradients", "--max-threads=2",
)  # fmt: skip
common = [executable, f"--data={work / 'train.bin'}", f"--lr={RATE}", "--seed=2"]
harness.run([executable, "--steps=0", "--seed=2", f"--save={work / 'saved0'}"])


def read(step, file):
    return read_safetensors(work / f"saved{step}/checkpoint-{step}/{file}")


weights = read(0, "model.safetensors")
moments = {name: [0.0] * len(values) for name, values in weights.items()}
for step in range(1, STEPS + 1):
    gradients = work / f"gradients{step}.safetensors"
    resume = [f"--resume={work / f'saved{step - 1}'}"] if step > 1 else []
    harness.run([*common, *resume, f"--steps={step}", f"--save={work / f'saved{step}'}", f"--dump-gradients={gradients}"])
    gradients = read_safetensors(gradients)
    found, kept = read(step, "model.safetensors"), read(step, "optimizer.safetensors")
    if set(gradients) != set(weights):
        harness.fail(f"gradients of {sorted(gradients)}, expected those of {sorted(weights)}")
    moved = 0
    for name, gradient in gradients.items():
        for i, g in enumerate(gradient):
            p, m = weights[name][i], moments[name][i]
            mixed = BETA1 * m + (1 - BETA1) * g
            sign = (mixed > 0) - (mixed < 0)
            moved += sign != 0
            weights[name][i] = p * (1 - RATE * DECAY) - RATE * sign
            moments[name][i] = BETA2 * m + (1 - BETA2) * g
            for what, value, expected in (("weight", found[name][i], weights[name][i]), ("moment", kept[f"{name}.exp_avg"][i], moments[name][i])):
                if not abs(value - expected) <= 1e-14 * max(abs(expected), 1e-3):
                    harness.fail(f"step {step}: {what} {i} of {name} is {value}, expected {expected}")
            moments[name][i], weights[name][i] = kept[f"{name}.exp_avg"][i], found[name][i]
    if not moved:
        harness.fail("nothing moved")
print("ok")
