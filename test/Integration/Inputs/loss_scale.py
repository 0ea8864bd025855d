# ===- loss_scale.py - Steps whose gradients overflow ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""loss_scale.py KILNC MODEL WORK "flags"...: compiles the model with --precision=fp16 and each
of the flags, and trains with a loss scale that is too large at first and grows too large again
later. A step whose gradients overflow must halve the scale and leave every saved byte as it
was; any other step must change the states, and the scale must double after a window of them. A
resumed run must have the bits of an uninterrupted one, and skipped steps must not count for
the optimizer."""

import shlex
import shutil
import sys

import harness

WINDOW = 2
FIRST = 1 << 26
STEPS = 16
TENSORS = ("model.safetensors", "adapter_model.safetensors", "optimizer.safetensors")

kilnc, model, work, *plans = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)


def contents(checkpoint):
    return [(checkpoint / name).read_bytes() for name in TENSORS if (checkpoint / name).exists()]


def check_steps(name, log, saved):
    """Checks the scale and the states after every step. Returns the steps that were skipped."""
    steps = harness.events(log, "step")
    skipped = [step["step"] for step in steps if step.get("skipped")]
    clean = 0
    for before, after in zip(steps, steps[1:]):
        step = before["step"]
        clean = 0 if step in skipped else clean + 1
        grows = clean == WINDOW
        expected = before["loss_scale"] * (0.5 if step in skipped else 2 if grows else 1)
        clean = 0 if grows else clean
        if after["loss_scale"] != expected:
            harness.fail(f"{name}: the scale after step {step} is {after['loss_scale']}, expected {expected}")
        equal = contents(saved / f"checkpoint-{step}") == contents(saved / f"checkpoint-{after['step']}")
        if equal != (after["step"] in skipped):
            harness.fail(f"{name}: step {after['step']} {'changed no' if equal else 'changed a'} state")
    if not skipped or skipped == list(range(1, len(skipped) + 1)):
        harness.fail(f"{name}: the steps {skipped} were skipped, expected the first ones and a later one")
    if any(step["grad_norm"] is None for step in steps if step["step"] not in skipped):
        harness.fail(f"{name}: a step that was not skipped has no finite norm")
    return skipped


def applied_steps(executable, name, scale, steps):
    """Trains on one sequence with a window that is never reached. Returns the saved bytes."""
    saved = work / f"{name}-{scale}"
    harness.run(
        [executable, f"--data={work / 'one.bin'}", "--seed=5", f"--steps={steps}", "--lr=0.003"]
        + [f"--loss-scale={scale},window=1000", f"--save={saved}"]
    )
    return contents(saved / f"checkpoint-{steps}")


for number, flags in enumerate(plans):
    name = f"plan{number}"
    executable = harness.compile_model(
        kilnc, model, work / name, "--precision=fp16", "--max-threads=2", *shlex.split(flags)
    )
    harness.run([executable, "--check-memory"])
    log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
    common = [executable, f"--data={work / 'train.bin'}", "--lr=0.003"]
    scale = f"--loss-scale={FIRST},window={WINDOW}"
    harness.run([*common, "--seed=5", scale, f"--steps={STEPS}", "--save-every=1", f"--save={saved}", f"--log={log}"])
    skipped = check_steps(flags, log, saved)

    # A run that is resumed just before a step that is skipped, and in the middle of a window.
    part, again = work / f"{name}.part.jsonl", work / f"{name}.again"
    shutil.copy(log, part)
    start = saved / f"checkpoint-{skipped[-1] - 1}"
    # The flag has the value of the first run, so that it changes nothing.
    harness.run([*common, scale, f"--resume={start}", f"--save={again}", f"--log={part}"])
    harness.require_equal_runs(f"{flags}: whole and resumed", log, saved, part, again)

    # Skipped steps leave no trace: on data of one batch, a run that skips its first steps ends
    # like one that begins with the smaller scale.
    if "--dropout" in flags or "--lossy=rmm" in flags:  # They depend on the number of the step.
        continue
    batch, length = (int(flag.split("=")[1]) for flag in shlex.split(flags)[:2])
    harness.make_weights.write_tokens(work / "one.bin", [7 * i % 50 for i in range(batch * length + 1)])
    count = next(i for i in range(STEPS) if i + 1 not in skipped)
    few = applied_steps(executable, name, FIRST >> count, 3)
    if applied_steps(executable, name, FIRST, count + 3) != few:
        harness.fail(f"{flags}: {count} skipped steps before 3 others changed the result of these")
print("ok")
