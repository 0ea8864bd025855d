# ===- zero_resume.py - Checkpoints of divided states ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""zero_resume.py MPIRUN KILNC MODEL WORK: trains on four ranks that store shards of all states, and
resumes a checkpoint in the middle on the same mesh, on two ranks, on one rank, on eight, and on two
that divide layers. All have the same global batch. The same mesh must give the same bits, and the others the same losses to
1e-6. Ranks that generate text must print it once, and it must be that of one rank."""

import sys

import harness
import ranks

STEPS, FIRST, GLOBAL = 12, 6, 8

mpirun, kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)


def build(mesh, *flags):
    return ranks.compile_mesh(kilnc, model, work, mesh, GLOBAL, "--max-threads=1", "--seq=16", *flags)


def train(name, count, executable, *flags):
    log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
    arguments = [
        f"--data={work / 'train.bin'}",
        f"--steps={STEPS}",
        "--lr=0.001",
        "--seed=5",
        f"--save-every={FIRST}",
        "--generate=8",
        "--temperature=0",
        f"--log={log}",
        f"--save={saved}",
        *flags,
    ]
    if count > 1:
        process = ranks.run(mpirun, count, executable, *arguments)
    else:
        process = harness.run([executable, *arguments])
    # The generated text follows the line about the last checkpoint.
    return log, saved, process.stdout.rpartition(f"checkpoint-{STEPS}\n")[2]


four = build("dp=4", "--zero=3")
log, saved, text = train("first", *four)
middle = saved / f"checkpoint-{FIRST}"
losses = [step["loss"] for step in harness.events(log, "step")]
meshes = {
    "again": four,
    "two": build("dp=2", "--zero=1"),
    "one": build("dp=1"),
    "eight": build("dp=8", "--zero=3", "--recompute=full"),
    "layers": build("tp=2"),
    "both": build("dp=2,tp=2", "--zero=3"),
}
for name, (count, executable) in meshes.items():
    other, others_saved, others_text = train(name, count, executable, f"--resume={middle}")
    found = [step["loss"] for step in harness.events(other, "step")]
    expected = losses[FIRST:]
    worst = max(abs(a - b) for a, b in zip(found, expected))
    print(f"{name}: losses differ by at most {worst:.1e}")
    if len(found) != len(expected) or not worst <= (0 if name == "again" else 1e-6):
        harness.fail(f"{name}: the losses are {found}, expected {expected}")
    if others_text != text or not text.strip():
        harness.fail(f"{name} generated {others_text!r}, expected {text!r}")
    if name == "again":
        for file in ("model.safetensors", "optimizer.safetensors"):
            a, b = (
                (harness.newest_checkpoint(directory) / file).read_bytes()
                for directory in (saved, others_saved)
            )
            if a != b:
                harness.fail(f"{file} has other bits after a resume on the same mesh")
