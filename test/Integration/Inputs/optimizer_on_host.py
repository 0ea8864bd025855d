# ===- optimizer_on_host.py - Guarantees of --offload=optimizer --------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""optimizer_on_host.py KILNC MODEL WORK [FLAGS...]: compiles the model with and without
--offload=optimizer for each of FLAGS (quoted lists). Losses, norms and saved tensors must
have the same bits, even if copies run at unusual times (--stress-copies, --emu-seed). The
device must not store any optimizer state, so with clipping its arena must be smaller by the
size of these states. A step must copy every gradient out and every parameter back, and
nothing else."""

import shlex
import sys

import harness

kilnc, model, work, *variants = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)


def train(executable, name, *flags):
    log, saved = work / f"{name}{number}.jsonl", work / f"{name}{number}.saved"
    harness.run(
        [executable, f"--data={work / 'train.bin'}", "--seed=5", "--threads=2", "--steps=4"]
        + ["--lr=0.003", f"--log={log}", f"--save={saved}", *flags]
    )
    return log, saved


def require(what, found, expected):
    if found != expected:
        harness.fail(f"{what} is {found}, expected {expected}")


for number, flags in enumerate(variants):
    common = [*shlex.split(flags), "--max-threads=2", "--eval=off"]
    plain = harness.compile_model(kilnc, model, work / "plain", *common)
    moved = harness.compile_model(kilnc, model, work / "moved", *common, "--offload=optimizer")
    reference = train(plain, "plain")
    runs = {"on the host": train(moved, "moved")}
    shuffle = "--emu-seed" if "--target=cuda-emu" in common else "--stress-copies"
    for seed in range(1, 6):
        runs[f"stressed with seed {seed}"] = train(moved, f"stress{seed}-", f"{shuffle}={seed}")
    for what, run in runs.items():
        harness.require_equal_runs(f"{flags}: optimizer {what}", *reference, *run)
        start, end = harness.events(run[0], "start")[0], harness.events(run[0], "end")[0]
        require("optimizer bytes in the device's arena", start["declared"]["optimizer"], 0)
        require("optimizer bytes at the peak", start["by_class"]["optimizer"], 0)
        parameters = start["parameters"] * (8 if start["precision"] == "fp64" else 4)
        for direction in ("out", "in"):
            name = f"copied_{direction}_bytes_per_step"
            require(name, end[name], parameters)
    start, end = harness.events(reference[0], "start")[0], harness.events(reference[0], "end")[0]
    moments = start["declared"]["optimizer"]
    moved_end = harness.events(runs["on the host"][0], "end")[0]
    # Without clipping, gradients are freed immediately, so gradients in transfer need
    # additional memory.
    most = end["arena_bytes"] - (1 if "--clip=off" in flags else moments)
    if moments and moved_end["arena_bytes"] > most:
        harness.fail(f"{flags}: the arena has {moved_end['arena_bytes']} bytes, expected {most}")
    if moved_end["host_arena_bytes"] < parameters + moments:
        harness.fail(f"{flags}: the host's arena has {moved_end['host_arena_bytes']} bytes")
    print(f"{flags}: {moments} bytes of moments are on the host, {parameters} bytes move each way")
