# ===- check_copies.py - Planned and actual copies ---------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""check_copies.py KILNC MODEL WORK FLAGS...

Checks that the bytes that a step copies to the host and back equal those in the plan of the
executable, with and without micro-batches.
"""

import json
import shlex
import sys

import harness

kilnc, model, work, *variants = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)

for flags in variants:
    report, log = work / "plan.json", work / "log.jsonl"
    executable = harness.compile_model(kilnc, model, work / "train", *shlex.split(flags), f"--report={report}")
    harness.run([executable, f"--data={work / 'train.bin'}", "--threads=2", "--steps=2", f"--log={log}"])
    plan, end = json.loads(report.read_text()), harness.events(log, "end")[0]
    for key in ("copied_out_bytes_per_step", "copied_in_bytes_per_step", "host_arena_bytes"):
        if not plan[key] or plan[key] != end[key]:
            harness.fail(f"{flags}: {key} is {plan[key]} in the plan and {end[key]} in the log")
    print(f"{flags}: {plan['copied_out_bytes_per_step']} bytes go, {plan['copied_in_bytes_per_step']} come back")
