# ===- quantized_bytes.py - Bytes of residuals that are codes -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""quantized_bytes.py KILNC MODEL WORK SEQUENCES [--peak] [FLAGS...]: plans the model exactly,
with q8 and with q4, with and without --rebuild=off, and compares the bytes of activations that
are live across the head and the loss. SEQUENCES is the number of sequences of a micro-batch.

A value of n elements must have n bytes of 8-bit codes or n / 2 bytes of 4-bit codes, and a scale
for each block. The length of a block is the largest of 256, 128, 64, 32 and 16 such that a
sequence has whole blocks, and an even number of them for 4-bit codes. The live bytes must
decrease by exactly the savings of the encodings. The reduction of the arena must be at least 90 %
of them if activations dominate it (--peak)."""

import json
import sys

import harness

kilnc, model, work, sequences, *flags = sys.argv[1:]
peak = "--peak" in flags
flags = [flag for flag in flags if flag != "--peak"]
sequences, work = int(sequences), harness.fresh_directory(work)
full = 8 if "--precision=fp64" in flags else 4
width = 2 if {"--precision=bf16", "--precision=fp16"} & set(flags) else full
HEAD = "lm_head"


def plan(*extra):
    path = work / "plan.json"
    harness.run([kilnc, model, *flags, *extra, "--emit=plan", "-o", path])
    return json.loads(path.read_text())


def kept(plan):
    """Returns the bytes of the buffers that are live across the head and the loss."""
    head = [i for i, name in enumerate(plan["command_names"]) if name == HEAD]
    if not head:
        harness.fail(f"{model} has no command '{HEAD}'")
    return sum(
        buffer["bytes"]
        for buffer in plan["buffers"]
        if buffer["class"] == "activation" and buffer["first"] < head[0] and buffer["last"] > head[-1]
    )


def check_encodings(plan, bits):
    for entry in plan["compressed"]:
        elements = entry["bytes"] // width
        step = 8 // bits
        block = next(b for b in (256, 128, 64, 32, 16) if elements // sequences % (step * b) == 0)
        expected = elements // step + elements // block * full
        if (entry["encoded_bytes"], entry["as"], entry["tag"]) != (expected, f"q{bits}", "lossy"):
            harness.fail(f"{entry}: expected {expected} bytes as q{bits}, lossy")


for extra in (["--rebuild=off"], []):
    exact = plan(*extra)
    for bits in (8, 4):
        coarse = plan(*extra, f"--lossy=q{bits}")
        check_encodings(coarse, bits)
        saved = kept(exact) - kept(coarse)
        arena = exact["predicted_peak_bytes"] - coarse["predicted_peak_bytes"]
        print(
            f"{' '.join(extra) or 'default':14} q{bits} keeps {kept(coarse):11} of {kept(exact):11}, saves {saved:11}"
            f" of the activations and {arena:11} of the arena, {len(coarse['compressed'])} encodings"
        )
        expected = sum(entry["bytes"] - entry["encoded_bytes"] for entry in coarse["compressed"])
        if saved != expected or saved <= 0:
            harness.fail(f"q{bits} saves {saved} bytes, its encodings {expected}")
        if peak and arena < 0.9 * saved:
            harness.fail(f"the arena saves {arena}")
