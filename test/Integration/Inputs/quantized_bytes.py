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

import sys

import harness
from kept_residuals import kept, plan

kilnc, model, work, sequences, *flags = sys.argv[1:]
peak = "--peak" in flags
flags = [flag for flag in flags if flag != "--peak"]
sequences, work = int(sequences), harness.fresh_directory(work)
full = 8 if "--precision=fp64" in flags else 4
width = 2 if {"--precision=bf16", "--precision=fp16"} & set(flags) else full


def check_encodings(plan, bits):
    for entry in plan["compressed"]:
        elements = entry["bytes"] // width
        step = 8 // bits
        block = next(b for b in (256, 128, 64, 32, 16) if elements // sequences % (step * b) == 0)
        expected = elements // step + elements // block * full
        if (entry["encoded_bytes"], entry["as"], entry["tag"]) != (expected, f"q{bits}", "lossy"):
            harness.fail(f"{entry}: expected {expected} bytes as q{bits}, lossy")


for extra in (["--rebuild=off"], []):
    exact = plan(kilnc, model, work, *flags, *extra)
    for bits in (8, 4):
        coarse = plan(kilnc, model, work, *flags, *extra, f"--lossy=q{bits}")
        check_encodings(coarse, bits)
        before, after = (sum(buffer["bytes"] for buffer in kept(each)) for each in (exact, coarse))
        saved = before - after
        arena = exact["predicted_peak_bytes"] - coarse["predicted_peak_bytes"]
        print(
            f"{' '.join(extra) or 'default':14} q{bits} keeps {after:11} of {before:11}, saves {saved:11}"
            f" of the activations and {arena:11} of the arena, {len(coarse['compressed'])} encodings"
        )
        expected = sum(entry["bytes"] - entry["encoded_bytes"] for entry in coarse["compressed"])
        if saved != expected or saved <= 0:
            harness.fail(f"q{bits} saves {saved} bytes, its encodings {expected}")
        if peak and arena < 0.9 * saved:
            harness.fail(f"the arena saves {arena}")
