# ===- ranks_cuda.py - Ranks with NCCL on stand-ins of GPUs  ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_cuda.py [--mesh=dp=2] [--tolerance=0] STAND_IN MPIRUN KILNC MODEL WORK [compile flags]: trains
on ranks of --target=cuda with stand-ins of the driver, cuBLASLt and NCCL. Losses must be those of
ranks of the CPU, up to the relative `tolerance`. A run that executes commands one by one must have
the bits of a run with graphs, and the bytes that ranks send must be those that ranks of the CPU
count. The stand-ins report misuse, and communicators that are not destroyed, on stderr."""

import sys

import harness
import ranks
import stand_in

BATCH = 4

options, arguments = harness.leading_options(sys.argv[1:], mesh="dp=2", tolerance=0.0)
libraries, mpirun, kilnc, model, work, *flags = arguments
work = harness.fresh_directory(work)
harness.write_inputs(model, work)
common = ["--seq=8", "--max-threads=1", *flags]


def run(name, count, executable, *more, env=None):
    log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
    arguments = [f"--data={work / 'train.bin'}", "--steps=4", "--lr=0.01", "--seed=5"]
    arguments += [f"--log={log}", f"--save={saved}", *more]
    done = harness.run(
        ranks.command(mpirun, count, executable, *arguments), env=env or ranks.environment(), timeout=200
    )
    if "stand-in" in done.stderr:
        harness.fail(done.stderr)
    return log, saved


for target in ("cpu", "cuda"):
    (work / target).mkdir()
count, executable = stand_in.compile_mesh(
    kilnc, model, work / "cuda", options["mesh"], BATCH, libraries, *common
)
env = stand_in.environment(libraries, count)
graphs = run("graphs", count, executable, env=env)
single = run("single", count, executable, "--sync-ops", env=env)
harness.require_equal_runs("--sync-ops", *graphs, *single)

plain = run("cpu", *ranks.compile_mesh(kilnc, model, work / "cpu", options["mesh"], BATCH, *common))
ends = [harness.events(log, "end")[0] for log in (plain[0], graphs[0])]
if not any(ends[0].get(key) for key in ("sent_bytes_per_step", "sent_bytes_per_sync")):
    harness.fail("the ranks of the CPU send nothing")
for key in ("sent_bytes_per_step", "sent_bytes_per_sync"):
    if ends[0].get(key) != ends[1].get(key):
        harness.fail(f"{key} is {ends[1].get(key)} with NCCL, and {ends[0].get(key)} on the CPU")
if ends[1].get("sent_bytes_are") != "computed" or "sent_bytes_are" in ends[0]:
    harness.fail("only the bytes of NCCL are computed")
start = harness.events(graphs[0], "start")[0]
if "NCCL 2.28.9" not in start["library"]:
    harness.fail(f"the log does not name NCCL: {start['library']}")
losses = [[step["loss"] for step in harness.events(log, "step")] for log in (plain[0], graphs[0])]
worst = max(abs(a - b) / abs(a) for a, b in zip(*losses, strict=True))
if not worst <= options["tolerance"]:
    harness.fail(f"losses differ from those of the CPU by {worst}, expected at most {options['tolerance']}")
print(f"{options['mesh']} {' '.join(flags)}: at most {worst:.1e} from the CPU")
