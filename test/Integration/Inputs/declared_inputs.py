# ===- declared_inputs.py - Inputs that a model declares ---------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""declared_inputs.py KILNC KILN_RUN MODEL WORK: trains the model of
usage/Inputs/declared.mlir in several ways, whose losses must agree with each other and with
a loss computed in this script, and checks the errors for wrong files."""

import array
import math
import shutil
import sys

import harness
from compare import read_safetensors
from make_weights import write_safetensors, write_tokens

kilnc, kiln_run, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
VOCABULARY, BATCH, LENGTH, WIDTH, ROWS = 40, 4, 8, 16, 13


def reals(*values):
    return array.array("f", values)


ids = [i * i * 7 % 31 for i in range(ROWS * LENGTH + 1)]
write_tokens(work / "train.bin", ids)
mask = reals(*(float((i * 5) % 3 != 0) for i in range(ROWS * LENGTH)))
offsets = reals(*(0.125 * i - 1 for i in range(WIDTH)))
tensors = {"mask": ([ROWS, LENGTH], mask), "temperature": ([], reals(0.75)), "offsets": ([WIDTH], offsets)}


def write(name, **changes):
    values = {**tensors, **changes}
    write_safetensors(work / name, [(key, *value) for key, value in values.items() if value])
    return work / name


inputs = write("inputs.safetensors")
executable = harness.compile_model(kilnc, model, work / "train", "--max-threads=2", "--optimizer=sgd", "--clip=off")
common = [f"--data={work / 'train.bin'}", "--steps=5", "--lr=0.5", "--seed=3"]


def train(name, command, *flags):
    log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
    harness.run([*command, *common, f"--log={log}", f"--save={saved}", *flags])
    return log, saved


def losses(log):
    return [event["loss"] for event in harness.events(log, "step")]


def close(what, first, second, tolerance):
    for a, b in zip(losses(first), losses(second), strict=True):
        if not abs(a - b) <= tolerance * abs(a):
            harness.fail(f"{what}: losses {a} and {b}")


first = train("first", [executable], f"--inputs={inputs}")

# The loss of the first step, computed from the initial weights.
harness.run([executable, "--steps=0", "--seed=3", f"--save={work / 'initial'}"])
weights = read_safetensors(work / "initial/checkpoint-0/model.safetensors")
table, head = (list(weights[name]) for name in ("table", "head"))
total = 0.0
for position in range(BATCH * LENGTH):
    row = table[WIDTH * ids[position] :][:WIDTH]
    x = [(row[c] * mask[position] + offsets[c]) * 0.75 for c in range(WIDTH)]
    logits = [sum(x[c] * head[VOCABULARY * c + v] for c in range(WIDTH)) for v in range(VOCABULARY)]
    total += math.log(sum(map(math.exp, logits))) - logits[ids[position + 1]]
expected, found = total / (BATCH * LENGTH), losses(first[0])[0]
if not abs(found - expected) < 1e-5 * expected:
    harness.fail(f"the first loss is {found}, expected {expected}")

# Plans, micro-batches and the interpreter have the same losses.
step = work / "step.mlir"
harness.run([kilnc, model, "--optimizer=sgd", "--clip=off", "--emit=step", "-o", step])
close("interpreted", first[0], train("step", [kiln_run, step], f"--inputs={inputs}")[0], 1e-5)
schedule = work / "schedule.mlir"
harness.run([kilnc, model, "--optimizer=sgd", "--clip=off", "--emit=schedule", "-o", schedule])
close("scheduled", first[0], train("schedule", [kiln_run, schedule], f"--inputs={inputs}")[0], 1e-5)
for name, *flags in (["full", "--recompute=full"], ["emu", "--target=cuda-emu"]):
    other = harness.compile_model(
        kilnc, model, work / f"train-{name}", "--max-threads=2", "--optimizer=sgd", "--clip=off", *flags
    )
    harness.require_equal_runs(name, *first, *train(name, [other], f"--inputs={inputs}"))
# Two micro-batches of two sequences.
small = work / "small.mlir"
with open(model, encoding="utf-8") as file:
    text = file.read()
for old, new in (("batch = 4", "batch = 2"), ("<4x8x", "<2x8x"), ("<32x", "<16x"), ("<32xf32>", "<16xf32>")):
    text = text.replace(old, new)
small.write_text(text)
split = harness.compile_model(
    kilnc, small, work / "train-split", "--microbatches=2", "--max-threads=2", "--optimizer=sgd", "--clip=off"
)
close("micro-batches", first[0], train("split", [split], f"--inputs={inputs}")[0], 1e-6)

# A resumed run continues with the same rows, also for shuffled sequences.
whole = train("whole", [executable], f"--inputs={inputs}", "--shuffle=9", "--save-every=2")
part = work / "part.jsonl"
shutil.copy(whole[0], part)
harness.run(
    [executable, f"--data={work / 'train.bin'}", f"--inputs={inputs}", f"--resume={work / 'whole.saved/checkpoint-2'}"]
    + [f"--save={work / 'part.saved'}", f"--log={part}"]
)
harness.require_equal_runs("resumed", *whole, part, work / "part.saved")
if losses(whole[0])[0] == losses(first[0])[0]:
    harness.fail("the shuffled run starts with the sequences of the other one")
harness.run([executable, "--steps=0", f"--val-data={work / 'train.bin'}", f"--val-inputs={inputs}"])


def refuse(code, text, *flags, train=common):
    done = harness.run([executable, *train, *flags], expect=code)
    if text not in done.stderr or len(done.stderr.splitlines()) != 1:
        harness.fail(f"standard error is {done.stderr!r}, expected one line with {text!r}")


refuse(2, "the model declares the inputs 'mask', 'temperature', 'offsets': give a file with their tensors by --inputs=FILE.safetensors")
refuse(3, "has no tensor 'mask', expected a tensor of shape [13, 8], one row per sequence of the data", f"--inputs={write('a.safetensors', mask=None)}")
few = ([ROWS - 1, LENGTH], mask[: (ROWS - 1) * LENGTH])
refuse(3, "tensor 'mask' has shape [12, 8], expected [13, 8], one row per sequence", f"--inputs={write('b.safetensors', mask=few)}")
refuse(3, "tensor 'temperature' has shape [1], expected []", f"--inputs={write('c.safetensors', temperature=([1], reals(1)))}")
changed = write("d.safetensors", temperature=([], reals(2)))
refuse(2, "--resume-changing=data", f"--resume={whole[1] / 'checkpoint-2'}", f"--inputs={changed}", train=common[:1])
refuse(3, "cannot open", "--inputs=missing.safetensors")
refuse(2, "--generate has no value for the input 'mask', which has a row per sequence of the data", f"--inputs={inputs}", "--generate=4")
refuse(2, "--inputs needs --data or --generate", f"--inputs={inputs}", "--check-memory", train=[])
print("ok")
