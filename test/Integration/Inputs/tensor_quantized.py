# ===- tensor_quantized.py - Quantized weights of divided layers --------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""tensor_quantized.py MPIRUN KILNC MODEL WORK: trains adapters of quantized weights that two ranks
divide. The weights that they use are those that --save-merged writes before training: one rank that
reads these and quantizes nothing must compute the same losses, to 1e-5. Each weight must be that of
its two parts, which are quantized on their own. Blocks of 64 elements do not cross the parts of a
model whose sizes are multiples of 128, so that the codes of int8 are those of one rank."""

import json
import math
import pathlib
import struct
import sys

import harness
import ranks

mpirun, kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
# A model whose parts consist of whole blocks.
aligned = work / "aligned"
aligned.mkdir()
config = json.loads((pathlib.Path(model) / "config.json").read_text())
config.update(hidden_size=128, intermediate_size=256, num_attention_heads=4, num_key_value_heads=2, head_dim=64)
(aligned / "config.json").write_text(json.dumps(config))


def build(model, mesh, *flags):
    name = "-".join([pathlib.Path(model).name, mesh, *(flag.strip("-") for flag in flags)])
    name = name.replace("=", "").replace(",", "").replace(":", "")
    lora = "--lora=r=4,targets=all-linear"
    executable = harness.compile_model(
        kilnc, model, work / name, "--max-threads=1", "--seq=16", "--batch=2", lora, f"--mesh={mesh}", *flags
    )
    return ranks.sizes_of(mesh)["tp"], executable


def train(built, name, steps, *flags):
    count, executable = built
    log = work / f"{name}.jsonl"
    arguments = [f"--data={work / 'train.bin'}", f"--steps={steps}", "--seed=5", f"--log={log}", *flags]
    if count > 1:
        ranks.run(mpirun, count, executable, *arguments)
    else:
        harness.run([executable, *arguments])
    return [step["loss"] for step in harness.events(log, "step")]


def weights_of(built, name, *flags):
    """Returns the file with the weights that an executable uses at its first step."""
    merged = work / f"{name}.merged"
    train(built, name, 1, "--lr=1e-30", f"--save-merged={merged}", *flags)
    return merged / "model.safetensors"


def numbers(file):
    """Returns the shape and the f32 numbers of each tensor of a file."""
    return {
        name: (shape, struct.unpack(f"<{len(data) // 4}f", data))
        for name, (kind, shape, data) in harness.saved_tensors(file).items()
    }


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def int8(values):
    """Returns what is left of a list of weights that is stored in blocks of int8."""
    decoded = []
    for first in range(0, len(values), 64):
        block = values[first : first + 64]
        scale = single(max(map(abs, block)) / 127)
        decoded += [single(round(single(value / scale)) * scale) if scale else 0.0 for value in block]
    return decoded


def columns(name):
    """Returns true if the columns of a matrix are divided, false if its rows are."""
    return "o_proj" in name or "down_proj" in name


def parts(shape, values, by_columns):
    rows, width = shape
    if not by_columns:
        half = -(-rows // 2) * width
        return [values[:half], values[half:]]
    half = -(-width // 2)
    lines = [values[row * width : (row + 1) * width] for row in range(rows)]
    return [[x for line in lines for x in line[:half]], [x for line in lines for x in line[half:]]]


def check(model, encoding):
    harness.write_inputs(model, work)
    name = f"{pathlib.Path(model).name}-{encoding.replace(':', '-').replace('=', '')}"
    quantized = build(model, "tp=2", f"--quantize-weights={encoding}")
    plain = build(model, "tp=1")
    original = numbers(weights_of(plain, f"{name}.original", "--from-scratch"))
    file = weights_of(quantized, f"{name}.used", "--from-scratch")
    used = numbers(file)
    changed, error, norm = 0, 0.0, 0.0
    for key, (shape, values) in used.items():
        before = original[key][1]
        if values == before:
            continue
        changed += 1
        error += sum((a - b) ** 2 for a, b in zip(values, before))
        norm += sum(b * b for b in before)
        if encoding == "int8":
            for part, own in zip(parts(shape, values, columns(key)), parts(shape, before, columns(key))):
                far = max(abs(a - b) for a, b in zip(part, int8(own)))
                if not far <= 1e-7:
                    harness.fail(f"{key} differs by {far} from its two quantized parts")
    if changed != 7 * config["num_hidden_layers"]:
        harness.fail(f"{changed} tensors differ from the original ones, expected all matrices of layers")
    print(f"{name}: relative error {math.sqrt(error / norm):.2%} of {changed} weights")
    if not error <= (0.11 if encoding == "nf4" else 0.01) ** 2 * norm:
        harness.fail("the weights are too far from the original ones")
    lr = ("--lr=0.01", "--lr-schedule=constant")
    found = train(quantized, f"{name}.losses", 8, "--from-scratch", *lr)
    expected = train(plain, f"{name}.expected", 8, f"--init={file}", *lr)
    worst = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    print(f"{name}: losses differ by at most {worst:.1e}")
    if not worst <= 1e-5:
        harness.fail(f"the losses are {found}, expected {expected}")
    return file


for encoding in ("nf4", "int8", "int8:outliers=2,scales=row"):
    check(model, encoding)
file = check(aligned, "int8")
one = numbers(weights_of(build(aligned, "tp=1", "--quantize-weights=int8"), "one", "--from-scratch"))
for key, (_, values) in numbers(file).items():
    # The first step moves the adapters, which are merged, too.
    if not max(abs(a - b) for a, b in zip(values, one[key][1], strict=True)) <= 1e-25:
        harness.fail(f"{key} of two ranks differs from that of one, although blocks do not cross parts")
