# ===- same_layers.py - Two files have the same layers --------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""same_layers.py KILNC FILE OTHER: checks that two models have the same arena, predicted time
and layers with --recompute=blocks."""

import json
import subprocess
import sys

import harness

kilnc, *files = sys.argv[1:]


def plan(file):
    command = [kilnc, file, "--max-threads=2", "--recompute=blocks", "--memory-budget=1GiB"]
    output = subprocess.run([*command, "--emit=plan", "-o", "-"], check=True, stdout=subprocess.PIPE)
    return json.loads(output.stdout)


plans = [plan(file) for file in files]
for key in ["device_arena_bytes", "predicted_step_ms"]:
    if plans[0][key] != plans[1][key]:
        harness.fail(f"{key} is {plans[0][key]} for {files[0]} and {plans[1][key]} for {files[1]}")
layers = [[choice["layer"] for choice in plan["choices"]] for plan in plans]
if layers[0] != layers[1] or "h.1" not in layers[0]:
    harness.fail(f"layers are {layers[0]} for {files[0]} and {layers[1]} for {files[1]}")
