# ===- ranks_interpreter.py - Interpreted ranks ------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_interpreter.py [--mesh=dp=2] MPIRUN KILNC KILN_RUN MODEL WORK [compile flags]: compiles a
model for the ranks of `mesh`, and interprets its step and its schedule as these ranks. Losses and gradient norms of the
executable must agree with those of the interpreter to 1e-9 with --precision=fp64, and to 1e-5
otherwise."""

import sys

import harness
import ranks

options, arguments = harness.leading_options(sys.argv[1:], mesh="dp=2")
mpirun, kilnc, kiln_run, model, work, *flags = arguments
sizes = ranks.sizes_of(options["mesh"])
count = sizes["dp"] * sizes["tp"]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
common = [f"--mesh={options['mesh']}", "--max-threads=1", "--eval=off", *flags]
executable = harness.compile_model(kilnc, model, work / "train", *common)
programs = {"executable": [executable]}
for stage in ("step", "schedule"):
    module = work / f"{stage}.mlir"
    harness.run([kilnc, model, *common, f"--emit={stage}", "-o", module])
    programs[stage] = [kiln_run, module]
records = {}
for name, program in programs.items():
    log = work / f"{name}.jsonl"
    arguments = [f"--data={work / 'train.bin'}", "--steps=3", "--lr=0.01", "--seed=5", f"--log={log}"]
    ranks.run(mpirun, count, *program, *arguments)
    if harness.events(log, "start")[0]["ranks"] != count:
        harness.fail(f"{name} does not run as {count} ranks")
    records[name] = [(step["loss"], step.get("grad_norm")) for step in harness.events(log, "step")]
tolerance = 1e-9 if "--precision=fp64" in flags else 1e-5
for stage in ("step", "schedule"):
    if len(records[stage]) != 3 or len(records["executable"]) != 3:
        harness.fail(f"{stage}: {records}")
    worst = 0
    for interpreted, compiled in zip(records[stage], records["executable"]):
        for a, b in zip(interpreted, compiled):
            if (a is None) != (b is None):
                harness.fail(f"{stage}: only one has a gradient norm: {records}")
            if a is not None:
                worst = max(worst, abs(a - b) / max(1, abs(a)))
    print(f"{stage}: at most {worst:.1e} between interpreter and executable")
    if not worst <= tolerance:
        harness.fail(f"{stage}: losses or norms differ by {worst}, expected at most {tolerance}")
