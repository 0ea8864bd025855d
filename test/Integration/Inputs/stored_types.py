# ===- stored_types.py - States of every stored type -------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""stored_types.py KILNC MODEL WORK: trains the model of usage/Inputs/stored.mlir and checks
the types, shapes and values of the saved tensors, and that a resumed run has the bits of an
uninterrupted one."""

import shutil
import struct
import sys

import harness

kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
executable = harness.compile_model(kilnc, model, work / "train", "--max-threads=2")
common = [executable, f"--data={work / 'train.bin'}", "--lr=0.02"]
log, saved = work / "whole.jsonl", work / "whole"
harness.run([*common, "--steps=8", "--save-every=4", f"--save={saved}", f"--log={log}"])
losses = [event["loss"] for event in harness.events(log, "step")]
if not losses[-1] < losses[0]:
    harness.fail(f"the losses are {losses}, expected a fall")


found = harness.saved_tensors(saved / "checkpoint-8/model.safetensors")
expected = {
    "table": ("BF16", [40, 16]), "head": ("F16", [40, 16]), "bias": ("F32", [40]), "gain": ("F64", []),
    "small": ("F16", []), "codes": ("I8", [3, 5]), "count": ("I64", []),
}  # fmt: skip
if {name: entry[:2] for name, entry in found.items()} != expected:
    harness.fail(f"saved are {found}")
for name, code, values in (("small", "e", [0.5]), ("codes", "b", [-7] * 15), ("count", "q", [3])):
    if list(struct.unpack(f"<{len(values)}{code}", found[name][2])) != values:
        harness.fail(f"{name} is {found[name]}")
moments = harness.saved_tensors(saved / "checkpoint-8/optimizer.safetensors")
if moments["head.exp_avg"][:2] != ("F32", [40, 16]) or moments["gain.exp_avg_sq"][:2] != ("F64", []):
    harness.fail(f"moments are {moments}")

part = work / "part.jsonl"
shutil.copy(log, part)
harness.run([*common, f"--resume={saved / 'checkpoint-4'}", f"--save={work / 'part'}", f"--log={part}"])
harness.require_equal_runs("resumed", log, saved, part, work / "part")
print("ok")
