# ===- order_plans.py - Plans for orders of segments --------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""order_plans.py KILNC MODEL WORK [flags]: checks the sizes of plans for orders of forward and
backward segments:

- the plan with --order=alternate is the plan without --order;
- from two micro-batches in flight on, each further one needs equally many bytes;
- plans and code for 512 micro-batches are at most 5 % larger than those for 8 micro-batches of
  the same size. Compile times, the medians of the processor times of five runs, are only
  printed, because the machine may be loaded."""

import json
import pathlib
import resource
import statistics
import sys

import harness

kilnc, model, work, *flags = sys.argv[1:]
work = harness.fresh_directory(work)
flags = [model, "--seq=8", "--max-threads=2", "--eval=off", *flags]


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def emit(stage, *more):
    output = work / stage
    harness.run([kilnc, *flags, *more, f"--emit={stage}", "-o", output])
    return output


def plan(*more):
    return json.loads(emit("plan", *more).read_text())


# Micro-batches in flight.
eight = ["--batch=8", "--microbatches=8"]
plain, alternate = plan(*eight), plan(*eight, "--order=alternate")
if plain != alternate:
    harness.fail("the plan with --order=alternate is not the plan without --order")
arenas = {
    count: plan(*eight, f"--order=one-forward-one-backward:{count}")["device_arena_bytes"] for count in range(1, 9)
}
if arenas[1] != plain["device_arena_bytes"]:
    harness.fail(f"{arenas[1]} bytes with one in flight, {plain['device_arena_bytes']} if they alternate")
for count, arena in arenas.items():
    print(f"{count} in flight: {arena} bytes, {arena - arenas[1]:+d}")
growth = {count: arenas[count] - arenas[count - 1] for count in range(2, 9)}
if len({growth[count] for count in range(3, 9)}) != 1 or growth[3] <= 0:
    harness.fail(f"a further micro-batch in flight needs {growth} bytes")

# Many micro-batches.
for order in ("alternate", "one-forward-one-backward:4"):
    sizes = {}
    for count in (8, 512):
        more = [f"--batch={count}", f"--microbatches={count}", f"--order={order}"]
        sizes[count] = {stage: emit(stage, *more).stat().st_size for stage in ("plan", "obj")}
        print(f"{order}, {count} micro-batches: bytes of plan and code: {sizes[count]}")
    for stage, small in sizes[8].items():
        large = sizes[512][stage]
        if not large <= 1.05 * small:
            harness.fail(f"{order}: the {stage} of 8 micro-batches has {small} bytes, of 512 {large}")
for count in (8, 512):
    seconds = []
    for _ in range(5):
        start = processor_seconds()
        emit("obj", f"--batch={count}", f"--microbatches={count}", "--order=one-forward-one-backward:4")
        seconds.append(processor_seconds() - start)
    print(f"{count} micro-batches are compiled in {statistics.median(seconds):.2f} s")
print("plans do not depend on the number of micro-batches")
