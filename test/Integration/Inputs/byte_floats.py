# ===- byte_floats.py - States of 8-bit floats ---------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""byte_floats.py KILNC MODEL WORK: trains the model of usage/Inputs/byte-floats.mlir and
checks the types and codes in the checkpoint against the formulas of the OCP specification,
that another run can start from the checkpoint, and that a resumed run computes the same bits
as an uninterrupted one."""

import math
import shutil
import sys

import harness

kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
# Every token has one successor, which the model can learn in a few steps.
harness.make_weights.write_tokens(work / "train.bin", [7 * i % 40 for i in range(1010)])
executable = harness.compile_model(kilnc, model, work / "train", "--max-threads=2")
data = f"--data={work / 'train.bin'}"
common = [executable, data, "--lr=0.1"]
log, saved = work / "whole.jsonl", work / "whole"
harness.run([*common, "--steps=16", "--save-every=8", f"--save={saved}", f"--log={log}"])
losses = [event["loss"] for event in harness.events(log, "step")]
if not losses[-1] < losses[0]:
    harness.fail(f"the losses are {losses}, expected a fall")


def number(code, exponent_bits):
    """Returns the value of a code. E4M3 has no infinities and one NaN per sign."""
    mantissa_bits = 7 - exponent_bits
    bias = 2 ** (exponent_bits - 1) - 1
    sign = -1 if code & 0x80 else 1
    exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & (2**mantissa_bits - 1)
    if exponent_bits == 4 and code & 0x7F == 0x7F:
        return math.nan
    if exponent_bits == 5 and exponent == 31:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * 2.0 ** (1 - bias) * mantissa / 2**mantissa_bits
    return sign * 2.0 ** (exponent - bias) * (1 + mantissa / 2**mantissa_bits)


def nearest(value, exponent_bits):
    finite = [code for code in range(256) if math.isfinite(number(code, exponent_bits))]
    return min(finite, key=lambda code: (abs(number(code, exponent_bits) - value), code % 2))


found = harness.saved_tensors(saved / "checkpoint-16/model.safetensors")
expected = {
    "table": ("F8_E4M3", [40, 16]), "head": ("F8_E5M2", [40, 16]), "bias": ("F32", [40]),
    "near": ("F8_E4M3", [3]), "far": ("F8_E4M3", []), "small": ("F8_E5M2", []),
}  # fmt: skip
if {name: entry[:2] for name, entry in found.items()} != expected:
    harness.fail(f"saved are {found}")
for name, value, exponent_bits in (("near", 0.3, 4), ("far", 448, 4), ("small", -2e-5, 5)):
    if set(found[name][2]) != {nearest(value, exponent_bits)}:
        harness.fail(f"{name} is {found[name][2]}, expected {nearest(value, exponent_bits)}")
start = harness.saved_tensors(saved / "checkpoint-8/model.safetensors")
for name, exponent_bits in (("table", 4), ("head", 5)):
    if len(found[name][2]) != 640 or not all(math.isfinite(number(code, exponent_bits)) for code in found[name][2]):
        harness.fail(f"{name} is not one finite code for each of 640 elements")
    if found[name][2] == start[name][2]:
        harness.fail(f"{name} has not changed in 8 steps")
moments = harness.saved_tensors(saved / "checkpoint-16/optimizer.safetensors")
if moments["head.exp_avg"][:2] != ("F32", [40, 16]):
    harness.fail(f"moments are {moments}")

# Weights of the same type are loaded exactly, and weights of f32 are rounded.
once = [executable, data, "--steps=1", "--lr=0"]
harness.run([*once, f"--init={saved / 'checkpoint-16/model.safetensors'}", f"--save={work / 'again'}"])
if harness.saved_tensors(work / "again/checkpoint-1/model.safetensors")["table"] != found["table"]:
    harness.fail("reading and writing the table changes it")

part = work / "part.jsonl"
shutil.copy(log, part)
harness.run([*common, f"--resume={saved / 'checkpoint-8'}", f"--save={work / 'part'}", f"--log={part}"])
harness.require_equal_runs("resumed", log, saved, part, work / "part")
print("ok")
