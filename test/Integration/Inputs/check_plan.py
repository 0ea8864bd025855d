# ===- check_plan.py - Consistency of a plan's figures -----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""check_plan.py PLAN.json: checks that the figures of a plan exist and are consistent."""

import json
import pathlib
import sys

import harness

plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
KEYS = """predicted_peak_bytes device_arena_bytes host_arena_bytes by_class declared
          microbatches predicted_step_ms lower_bound_ms choices buffers programs
          state_bytes host_state_bytes copied_out_bytes_per_step copied_in_bytes_per_step""".split()
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
for arena, height in [("device", plan["device_arena_bytes"]), ("host", plan["host_arena_bytes"])]:
    inside = [buffer for buffer in buffers if buffer.get("arena", "device") == arena]
    end = max((buffer["offset"] + buffer["bytes"] for buffer in inside), default=0)
    if not height - 64 < end <= height:
        harness.fail(f"buffers of the {arena} end at {end}, its arena at {height}")
    for i, a in enumerate(inside):
        if a["offset"] % a["alignment"]:
            harness.fail(f"'{a['name']}' is not aligned to {a['alignment']}")
        for b in inside[:i]:
            together = a["first"] < b["last"] and b["first"] < a["last"]
            if together and a["offset"] < b["offset"] + b["bytes"] and b["offset"] < a["offset"] + a["bytes"]:
                harness.fail(f"'{a['name']}' and '{b['name']}' share memory while both live")
if plan["predicted_peak_bytes"] != plan["device_arena_bytes"]:
    harness.fail("the predicted peak is not the arena's size")
if plan["program"] == "train" and plan["host_arena_bytes"] != plan["programs"]["train"]["host_height"]:
    harness.fail("the host's arena is not as high as the training program needs")

# Copied values have a buffer on the host.
copied = [plan[f"copied_{way}_bytes_per_step"] for way in ("out", "in")]
if any(copied) != bool(plan["host_arena_bytes"]) or any(copied) != ("link" in plan):
    harness.fail(f"{copied} bytes are copied and the host has {plan['host_arena_bytes']}")
offloaded = sum(choice["offloaded_bytes"] for choice in plan["choices"])
activations = sum(b["bytes"] for b in buffers if b.get("arena") == "host" and b["class"] == "activation")
if offloaded > activations:
    harness.fail(f"choices say that {offloaded} bytes wait on the host, only {activations} have a buffer there")
if offloaded * plan["microbatches"] > min(copied):
    harness.fail(f"{offloaded} bytes wait on the host and only {copied} are copied")
print(f"{len(buffers)} buffers in {plan['device_arena_bytes']} + {plan['host_arena_bytes']} bytes")
