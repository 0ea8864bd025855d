# ===- own_forward.py - Equal plans of a directory and its graph -------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""own_forward.py KILNC MODEL FOLDER FLAGS...: checks that a model compiled from the forward
graph that kilnc writes has the same schedule and plan as the model compiled from its
directory, with each policy of --recompute and the same layer names."""

import json
import pathlib
import subprocess
import sys

import harness

kilnc, model, folder, flags = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:]
folder.mkdir(parents=True, exist_ok=True)


def write(source, *more):
    command = [kilnc, source, "--max-threads=2", *flags, *more, "-o", "-"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


forward = folder / "forward.mlir"
forward.write_text(write(model, "--emit=forward"))
if write(forward, "--emit=forward") != forward.read_text():
    harness.fail(f"{forward} is not its own forward file")
arenas = set()
for policy in ["none", "full", "blocks", "sqrt", "poor", "optimal"]:
    for budget in ["", "--memory-budget=1GiB"]:
        if policy == "optimal" and not budget:
            continue
        more = [f"--recompute={policy}", *budget.split()]
        if write(model, *more, "--emit=schedule") != write(forward, *more, "--emit=schedule"):
            harness.fail(f"{more}: the schedules differ")
        plan, own = (json.loads(write(source, *more, "--emit=plan")) for source in (model, forward))
        for key in sorted({*plan, *own}):
            if plan.get(key) != own.get(key):
                harness.fail(f"{more}: {key} is {plan.get(key)}, and {own.get(key)} from the forward file")
        if budget and not any(choice["layer"] for choice in own["choices"]):
            harness.fail(f"{more}: no stage has the name of its layer")
        arenas.add(own["device_arena_bytes"])
if len(arenas) < 3:
    harness.fail(f"policies have the arenas {sorted(arenas)}: expected at least 3 different ones")
print(f"{len(arenas)} arenas")
