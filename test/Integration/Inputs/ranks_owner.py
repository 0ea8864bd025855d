# ===- ranks_owner.py - Trace of a step whose layers have owners -------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_owner.py MPIRUN KILNC MODEL WORK: trains the model of three layers on three ranks, each of
which owns a layer, and prints what each rank does in a step: the gathers and sums that it begins,
the commands that it executes, and after each of them the number of whole parameters in its memory,
if it has changed. All parameters have the same size."""

import json
import sys

import harness
import ranks
from make_weights import write_tokens

PARAMETER = 2560 * 2560 * 4  # Bytes.

mpirun, kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
write_tokens(work / "train.bin", [i * i % 31 for i in range(600)])
flags = ["--mesh=dp=3", "--zero=3", "--zero-by=owner", "--optimizer=sgd", "--clip=off", "--eval=off"]
executable = harness.compile_model(kilnc, model, work / "train", *flags, "--max-threads=1")
trace = work / "trace.json"
arguments = [f"--data={work / 'train.bin'}", "--from-scratch", "--steps=3", f"--trace={trace}"]
ranks.run(mpirun, 3, executable, *arguments)
events = json.loads(trace.read_text())["traceEvents"]

VERBS = {
    "all_gather": "begins to gather",
    "reduce_scatter": "begins to sum the gradient of",
    "all_reduce": "begins to sum",
}
for rank in range(3):
    print(f"rank {rank}")
    own = [
        event
        for event in events
        if event["pid"] == rank and event["ph"] in "CX" and event.get("tid", 0) == 0
    ]
    # Live bytes precede the command that needs them.
    own.sort(key=lambda event: (event["ts"], event["ph"]))
    before = 0
    for event in own:
        if event["ph"] == "C":
            held = event["args"].get("materialized", 0) / PARAMETER
            if held != before:
                print(f"  holds {held:g} gathered parameters")
            before = held
        elif event["cat"] == "copy_wait":
            continue
        elif event["cat"] in VERBS:
            print(f"  {VERBS[event['cat']]} {event['name']}")
        else:
            print(f"  {'updates' if event['name'].startswith('P') else 'computes'} {event['name']}")
