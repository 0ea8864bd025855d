# ===- ranks_exact.py - Exact techniques on ranks ------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_exact.py MPIRUN KILNC MODEL WORK [compile flags] -- [flags of an exact technique] -- ...:
executables for ranks with the compile flags and those of each exact technique must train to the same
bits as one with the compile flags only, and their memory plans must be right."""

import sys

import harness
import ranks

mpirun, kilnc, model, work, *rest = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
parts = [[]]
for flag in rest:
    if flag == "--":
        parts.append([])
    else:
        parts[-1].append(flag)
common, *techniques = parts
mesh = next(flag.split("=", 1)[1] for flag in common if flag.startswith("--mesh="))
common = [flag for flag in common if not flag.startswith("--mesh=")]


def trained(name, *flags):
    (work / name).mkdir()
    count, executable = ranks.compile_mesh(
        kilnc, model, work / name, mesh, 4, "--seq=16", "--max-threads=1", "--eval=off", *common, *flags
    )
    log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
    arguments = [f"--data={work / 'train.bin'}", "--steps=5", "--lr=0.01", "--seed=5"]
    ranks.run(mpirun, count, executable, *arguments, f"--log={log}", f"--save={saved}")
    ranks.require_exact_memory(mpirun, count, executable, ["--eval=off"])
    return log, saved


plain = trained("plain")
for number, flags in enumerate(techniques):
    harness.require_equal_runs(" ".join(flags), *plain, *trained(f"technique{number}", *flags))
