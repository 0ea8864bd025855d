# ===- check_plan.py - What a plan says, and that it adds up -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""check_plan.py PLAN.json: the figures of a plan are there and agree."""

import json
import pathlib
import sys

import harness

plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
KEYS = """predicted_peak_bytes device_arena_bytes host_arena_bytes by_class declared
          microbatches predicted_step_ms lower_bound_ms choices buffers programs
          state_bytes""".split()
CLASSES = "parameters gradients optimizer activations workspace communication".split()
BUFFER = "name class offset bytes first last why alignment".split()
for where, found, keys in [
    ("the plan", plan, KEYS),
    ("by_class", plan["by_class"], CLASSES),
    ("declared", plan["declared"], CLASSES),
    *((f"buffer {i}", buffer, BUFFER) for i, buffer in enumerate(plan["buffers"])),
]:
    missing = [key for key in keys if key not in found]
    if missing:
        harness.fail(f"{where} has no {', '.join(missing)}")

buffers = plan["buffers"]
end = max(buffer["offset"] + buffer["bytes"] for buffer in buffers)
if not plan["device_arena_bytes"] - 64 < end <= plan["device_arena_bytes"]:
    harness.fail(f"buffers end at {end}, the arena at {plan['device_arena_bytes']}")
if plan["predicted_peak_bytes"] != plan["device_arena_bytes"]:
    harness.fail("the predicted peak is not the arena's size")
for i, a in enumerate(buffers):
    if a["offset"] % a["alignment"]:
        harness.fail(f"'{a['name']}' is not aligned to {a['alignment']}")
    for b in buffers[:i]:
        together = a["first"] < b["last"] and b["first"] < a["last"]
        if together and a["offset"] < b["offset"] + b["bytes"] and b["offset"] < a["offset"] + a["bytes"]:
            harness.fail(f"'{a['name']}' and '{b['name']}' share memory while both live")
print(f"{len(buffers)} buffers in {plan['device_arena_bytes']} bytes")
