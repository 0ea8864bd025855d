# ===- tensor_lora.py - Adapters of divided layers ----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""tensor_lora.py MPIRUN KILNC MODEL WORK: trains adapters on four ranks that divide layers and
states, continues on two ranks that divide layers and on one rank, and merges the adapters on each of
them. Losses must agree to 1e-6, and merged weights to 1e-6. A checkpoint of the four ranks that one
rank saves again must have the same bits."""

import struct
import sys

import harness
import ranks

STEPS, FIRST, GLOBAL = 8, 4, 4

mpirun, kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)


def build(mesh, *flags):
    common = ("--max-threads=1", "--seq=16", "--lora=r=4,targets=all-linear")
    return ranks.compile_mesh(kilnc, model, work, mesh, GLOBAL, *common, *flags)


def train(name, built, steps, *flags):
    count, executable = built
    log, merged = work / f"{name}.jsonl", work / f"{name}.merged"
    arguments = [
        f"--data={work / 'train.bin'}",
        f"--steps={steps}",
        "--lr=0.01",
        "--lr-schedule=constant",
        "--seed=5",
        f"--log={log}",
        f"--save={work / name}.saved",
        f"--save-merged={merged}",
        *flags,
    ]
    if count > 1:
        ranks.run(mpirun, count, executable, *arguments)
    else:
        harness.run([executable, *arguments])
    return [step["loss"] for step in harness.events(log, "step")], merged


def numbers(file):
    """Returns the f32 numbers of each tensor of a file."""
    return {
        name: struct.unpack(f"<{len(data) // 4}f", data)
        for name, (kind, _, data) in harness.saved_tensors(file).items()
        if kind == "F32"
    }


weights = work / "model.safetensors"
four, two, one = build("dp=2,tp=2", "--zero=3"), build("tp=2"), build("dp=1")
losses, merged = train("four", four, STEPS, f"--init={weights}", f"--save-every={FIRST}")
middle = work / "four.saved" / f"checkpoint-{FIRST}"
expected = numbers(merged / "model.safetensors")
for name, built in (("two", two), ("one", one)):
    found, others = train(name, built, STEPS, f"--base={weights}", f"--resume={middle}")
    worst = max(abs(a - b) for a, b in zip(found, losses[FIRST:]))
    if len(found) != STEPS - FIRST or not worst <= 1e-6:
        harness.fail(f"{name}: the losses are {found}, expected {losses[FIRST:]}")
    other = numbers(others / "model.safetensors")
    if other.keys() != expected.keys() or not expected:
        harness.fail(f"{name}: the merged model has {sorted(other)}, expected {sorted(expected)}")
    far = max(abs(a - b) for key in expected for a, b in zip(expected[key], other[key]))
    print(f"{name}: losses differ by at most {worst:.1e}, merged weights by {far:.1e}")
    if not far <= 1e-6:
        harness.fail(f"{name}: merged weights differ by {far}")
train("again", one, FIRST, f"--base={weights}", f"--resume={middle}")
again = harness.newest_checkpoint(work / "again.saved")
for file in ("adapter_model.safetensors", "optimizer.safetensors"):
    if (again / file).read_bytes() != (middle / file).read_bytes():
        harness.fail(f"{file} of one rank differs from that of four")
