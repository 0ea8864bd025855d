# ===- launch_groups.py - Launches of equal kernels are grouped --------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""launch_groups.py EXECUTABLE: checks that the launches of `train` that update states are
grouped into one launch per kernel, or into as many as the 4 KiB limit of kernel parameters
requires."""

import json
import math
import sys

import description
import harness

content, begin, end = description.find(sys.argv[1])
program = json.loads(content[begin:end])
commands = description.commands(program["programs"]["train"])
states = program["arena"]["state_bytes"]
updates, heads, args, left = {}, {}, {}, 0
for command in commands:
    group = command.get("group", 1)
    if left and group > 1:
        harness.fail(f"{command['name']} begins a group in a group")
    begins = left == 0
    left = max(left, group) - 1
    if command["op"] != "launch" or all(command["args"][i][0] >= states for i in command["writes"]):
        continue
    kernel = command["kernel"]
    args[kernel] = len(command["args"])
    updates[kernel] = updates.get(kernel, 0) + 1
    heads[kernel] = heads.get(kernel, 0) + begins
if not any(count > 1 for count in updates.values()):
    harness.fail("no kernel updates two parameters")
for kernel, count in updates.items():
    expected = math.ceil(count / ((4096 // 8 - 1) // args[kernel]))
    if heads[kernel] != expected:
        harness.fail(f"{count} updates by kernel {kernel} are {heads[kernel]} launches, expected {expected}")
print(f"{sum(updates.values())} updates by {len(updates)} kernels: {sum(heads.values())} launches")
