# ===- ranks_emu.py - Ranks with emulated GPUs --------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_emu.py [--mesh=dp=2] [--seeds=3] [--tolerance=0] MPIRUN KILNC MODEL WORK [compile flags]: trains
on ranks that have an emulated GPU each. Every seed is another order of everything that the streams
of the ranks do not order, and must give the same bits. Losses must be those of ranks of the CPU, up to
the relative `tolerance`. Also checks the memory plan, and the bytes that ranks send."""

import sys

import harness
import ranks

BATCH = 4

options, arguments = harness.leading_options(sys.argv[1:], mesh="dp=2", seeds=3, tolerance=0.0)
mpirun, kilnc, model, work, *flags = arguments
work = harness.fresh_directory(work)
harness.write_inputs(model, work)


def compiled(target):
    common = ["--seq=8", "--max-threads=1", f"--target={target}", *flags]
    return ranks.compile_mesh(kilnc, model, work / target, options["mesh"], BATCH, *common)


def run(name, count, executable, *more):
    log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
    arguments = [f"--data={work / 'train.bin'}", "--steps=4", "--lr=0.01", "--seed=5"]
    ranks.run(mpirun, count, executable, *arguments, f"--log={log}", f"--save={saved}", *more)
    return log, saved


for target in ("cpu", "cuda-emu"):
    (work / target).mkdir()
count, executable = compiled("cuda-emu")
runs = [run(f"seed{seed}", count, executable, f"--emu-seed={seed}") for seed in range(options["seeds"])]
for seed, other in enumerate(runs[1:], 1):
    harness.require_equal_runs(f"--emu-seed={seed}", *runs[0], *other)

plain = run("cpu", *compiled("cpu"))
ends = [harness.events(log, "end")[0] for log in (plain[0], runs[0][0])]
if not any(ends[0].get(key) for key in ("sent_bytes_per_step", "sent_bytes_per_sync")):
    harness.fail("the ranks of the CPU send nothing")
for key in ("sent_bytes_per_step", "sent_bytes_per_sync"):
    if ends[0].get(key) != ends[1].get(key):
        harness.fail(f"{key} is {ends[1].get(key)} with emulated GPUs, and {ends[0].get(key)} on the CPU")
losses = [[step["loss"] for step in harness.events(log, "step")] for log in (plain[0], runs[0][0])]
worst = max(abs(a - b) / abs(a) for a, b in zip(*losses, strict=True))
if not worst <= options["tolerance"]:
    harness.fail(f"losses differ from those of the CPU by {worst}, expected at most {options['tolerance']}")
ranks.require_exact_memory(mpirun, count, executable, ["--target=cuda-emu"])
print(f"{options['mesh']} {' '.join(flags)}: {options['seeds']} seeds are equal, at most {worst:.1e} from the CPU")
