# ===- determinism.py - Equal bits for all thread counts ---------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""determinism.py KILNC MODEL WORK [compile flags]: runs an executable for up to three
threads twice with two threads, then with one, with three, and with three that share one
processor, where they compute other parts of the work. Losses, norms and all saved tensors
must be equal to the last bit."""

import os
import sys

import harness

kilnc, model, work, *flags = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
executable = harness.compile_model(kilnc, model, work / "train", "--max-threads=3", *flags)
runs = []
processors = os.sched_getaffinity(0)
for name, threads in [("first", 2), ("again", 2), ("one", 1), ("three", 3), ("crowded", 3)]:
    os.sched_setaffinity(0, {min(processors)} if name == "crowded" else processors)
    log, saved = work / f"{name}.jsonl", work / name
    harness.run(
        [
            executable,
            f"--data={work / 'train.bin'}",
            "--steps=8",
            "--lr=0.003",
            "--lr-schedule=cosine",
            "--warmup-steps=2",
            "--seed=5",
            f"--threads={threads}",
            f"--log={log}",
            f"--save={saved}",
        ]
    )
    if harness.events(log, "start")[0]["threads"] != threads:
        harness.fail(f"{log} does not say that {threads} threads ran")
    runs.append((name, log, saved))
for name, log, saved in runs[1:]:
    harness.require_equal_runs(f"first and {name}", runs[0][1], runs[0][2], log, saved)
