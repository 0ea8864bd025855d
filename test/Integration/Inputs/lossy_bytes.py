# ===- lossy_bytes.py - Bytes saved by residual encodings --------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""lossy_bytes.py KILNC MODEL WORK BITS RHO [FLAGS...]: plans the model exactly, with
fewbit:BITS, with rmm:RHO and with both, and compares the bytes of activations that are live
across the head and the loss.

With --rebuild=off, every value that the backward pass reads is kept. Then every code must
have ceil(BITS * elements / 8) bytes, and every sketch RHO times the bytes of its value. The
live bytes must decrease by exactly the savings of the encodings in each plan, and with both
techniques by the sum. The reduction of the arena must be at least 98 % of the sum if
activations dominate it (--peak). Without --rebuild=off, no plan may keep more bytes than the
exact one, and both techniques together must save at least as much as either one."""

import math
import sys

import harness
from kept_residuals import kept, plan

kilnc, model, work, bits, rho, *flags = sys.argv[1:]
peak = "--peak" in flags
flags = [flag for flag in flags if flag != "--peak"]
bits, rho, work = int(bits), float(rho), harness.fresh_directory(work)
width = 8 if "--precision=fp64" in flags else 4


def check_encodings(plan):
    """Checks that every encoding has the expected size and a buffer of that size."""
    sizes = [(buffer["name"], buffer["bytes"]) for buffer in kept(plan)]
    for entry in plan.get("compressed", []):
        elements = entry["bytes"] // width
        codes = entry["as"] == f"fewbit:{bits}"
        expected = math.ceil(bits * elements / 8) if codes else rho * entry["bytes"]
        if entry["encoded_bytes"] != expected or entry["tag"] != "lossy":
            harness.fail(f"{entry}: expected {expected} bytes, lossy")
        name = entry["value"] + (".bucket_encode" if codes else ".sketch_rows")
        if (name, entry["encoded_bytes"]) not in sizes:
            harness.fail(f"no buffer '{name}' of {entry['encoded_bytes']} bytes in {sizes}")


def compare(*extra):
    lists = {"none": [], "fewbit": [f"fewbit:{bits}"], "rmm": [f"rmm:{rho}"]}
    lists["both"] = [*lists["fewbit"], *lists["rmm"]]
    plans = {
        name: plan(kilnc, model, work, *flags, *extra, *(["--lossy=" + ",".join(names)] if names else []))
        for name, names in lists.items()
    }
    for each in plans.values():
        check_encodings(each)
    total = {name: sum(buffer["bytes"] for buffer in kept(each)) for name, each in plans.items()}
    saved = {name: total["none"] - total[name] for name in plans}
    arena = {name: plans["none"]["predicted_peak_bytes"] - each["predicted_peak_bytes"] for name, each in plans.items()}
    for name, each in plans.items():
        print(
            f"{' '.join(extra) or 'default':14} {name:7} keeps {total[name]:11}, saves {saved[name]:11}"
            f" of the activations and {arena[name]:11} of the arena,"
            f" {len(each.get('compressed', []))} encodings"
        )
    return plans, saved, arena


plans, saved, arena = compare("--rebuild=off")
for name, each in plans.items():
    expected = sum(entry["bytes"] - entry["encoded_bytes"] for entry in each.get("compressed", []))
    if saved[name] != expected:
        harness.fail(f"{name} saves {saved[name]} bytes, its encodings {expected}")
if not saved["fewbit"] > 0 or not saved["rmm"] > 0:
    harness.fail("nothing is saved")
if saved["both"] != saved["fewbit"] + saved["rmm"]:
    harness.fail(f"{saved['both']} bytes saved by both, expected the sum of {saved}")
if peak and arena["both"] < 0.98 * (arena["fewbit"] + arena["rmm"]):
    harness.fail(f"the arena saves {arena}")

plans, saved, arena = compare()
if min(saved.values()) < 0 or saved["both"] < saved["fewbit"] + saved["rmm"] or saved["both"] <= 0:
    harness.fail(f"by default {saved} bytes are saved")
