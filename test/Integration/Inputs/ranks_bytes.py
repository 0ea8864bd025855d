# ===- ranks_bytes.py - Bytes that MPI counts ---------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_bytes.py MPIRUN KILNC MODEL WORK: the bytes that Open MPI's monitoring counts in ten steps are
those that executables say they send, plus one message of 40 bytes to each other rank before every
step. Without micro-batches, dp=2 sends as many bytes as the all-reduce of all gradients, and averages
every fifth step send as many as the all-reduce of all states."""

import sys

import harness
import ranks

FIRST, STEPS, VOTE = 2, 10, 40

mpirun, kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)


def counted(executable, count, steps):
    """Returns the bytes that the first rank has sent to all others."""
    profile = work / "profile"
    monitoring = {"enable": 2, "enable_output": 3, "filename": profile}
    options = " ".join(f"--mca pml_monitoring_{key} {value}" for key, value in monitoring.items())
    log = work / "log.jsonl"
    log.unlink(missing_ok=True)
    arguments = [f"--data={work / 'train.bin'}", f"--steps={steps}", f"--log={log}"]
    ranks.run(f"{mpirun} {options}", count, executable, *arguments)
    lines = (work / "profile.0.prof").read_text().splitlines()
    sent = sum(int(line.split()[3]) for line in lines if line.startswith("E\t"))
    return sent, harness.events(log, "start")[0], harness.events(log, "end")[0]


for mesh, *flags in (
    ("dp=2", "--clip=off"),
    ("dp=3", "--microbatches=2"),
    ("dp=2", "--zero=3"),
    ("dp=2", "--zero=3", "--precision=bf16"),
    ("dp=2", "--zero=2", "--microbatches=2"),
    ("tp=2",),
    ("tp=2", "--sequence-parallel"),
    ("dp=2,tp=2", "--zero=1"),
    ("dp=2", "--sync-every=5"),
    ("dp=3", "--compress-gradients=powersgd:2"),
    ("dp=3", "--compress-gradients=gradzip:2"),
    ("dp=2", "--compress-gradients=count-sketch:2"),
):
    common = ["--max-threads=1", "--seq=16", "--eval=off", *flags]
    count, executable = ranks.compile_mesh(kilnc, model, work, mesh, 12, *common)
    few, _, _ = counted(executable, count, FIRST)
    many, start, end = counted(executable, count, FIRST + STEPS)
    step = end["sent_bytes_per_step"] + VOTE * (count - 1)
    # Two ranks that sum an array send as many bytes as it has. The runs average after their last step;
    # the longer one also after steps 5 and 10.
    averaged = end.get("sent_bytes_per_sync", 0)
    syncs = 2 * averaged
    if averaged != start.get("all_reduced_bytes_per_sync", 0) or averaged not in (0, 3 * 4 * start["parameters"]):
        harness.fail(f"{averaged} bytes are averaged, expected parameters and two moments in f32")
    if many - few != STEPS * step + syncs:
        harness.fail(f"{mesh} {flags}: {many - few} bytes in {STEPS} steps, expected {STEPS * step} + {syncs}")
    gradients = start["all_reduced_bytes_per_step"]
    if mesh == "dp=2" and flags == ["--clip=off"] and not 0 <= gradients - 4 * start["parameters"] <= 8:
        harness.fail(f"{gradients} bytes are summed for {start['parameters']} parameters")
    print(f"{mesh} {' '.join(flags)}: {many - few} bytes in {STEPS} steps, as planned")
