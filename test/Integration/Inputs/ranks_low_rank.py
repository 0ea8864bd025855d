# ===- ranks_low_rank.py - PowerSGD of gradients of a low rank ----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_low_rank.py MPIRUN KILNC MODEL WORK: with short sequences, the gradient of the positions has
fewer rows that are not zero than the rank of PowerSGD, which represents it exactly. After many steps
in f32, the errors of the ranks must still be rounding errors, and the weights of the positions those
of exact sums."""

import math
import struct
import sys

import harness
import ranks

STEPS, WEIGHT = 60, "transformer.wpe.weight"

mpirun, kilnc, model, work = sys.argv[1:]
work = harness.fresh_directory(work)
harness.write_inputs(model, work)


def numbers(path, name):
    _, _, data = harness.saved_tensors(path)[name]
    return struct.unpack(f"<{len(data) // 4}f", data)


def norm(values):
    return math.sqrt(sum(x * x for x in values))


for length, rank in ((2, 8), (2, 16), (4, 16)):
    found = []
    for scheme in ([], [f"--compress-gradients=powersgd:{rank}"]):
        count, executable = ranks.compile_mesh(
            kilnc, model, work, "dp=2", 2, f"--seq={length}", "--max-threads=1", "--optimizer=sgd", "--clip=off",
            "--eval=off", *scheme,
        )
        saved = harness.fresh_directory(work / "saved") / "run"
        ranks.run(
            mpirun, count, executable, f"--data={work / 'train.bin'}", f"--init={work / 'model.safetensors'}",
            f"--steps={STEPS}", "--seed=5", "--lr=0.01", "--lr-schedule=constant", f"--save={saved}",
        )
        checkpoint = harness.newest_checkpoint(saved)
        found.append(numbers(checkpoint / "model.safetensors", WEIGHT))
    error = norm(numbers(checkpoint / "optimizer.safetensors", f"{WEIGHT}.error"))
    start = numbers(work / "model.safetensors", WEIGHT)
    moved = norm([a - b for a, b in zip(found[0], start)])
    apart = norm([a - b for a, b in zip(*found)])
    print(f"{length} tokens, rank {rank}: the weights moved by {moved:.3g}, {apart:.3g} apart; errors of {error:.3g}")
    # PowerSGD changes the gradients of other weights, so these weights differ a little.
    if not (moved > 0 and apart <= 0.1 * moved and error <= 0.1 * moved / 0.01 / STEPS):
        harness.fail("the errors of a gradient of low rank grow")
