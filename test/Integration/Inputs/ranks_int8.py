# ===- ranks_int8.py - Sums of 8-bit codes of gradients -----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_int8.py [--dp=2] [--seeds=12] MPIRUN KILNC MODEL WORK [compile flags]: compares the gradients
that ranks sum as 8-bit codes with exact sums. The error of an element is at most one code per rank;
the scale of the codes follows from the gradients of each rank, which one rank computes. Rounding must
be stochastic: its errors have the variance of independent draws on all ranks, and are correlated
neither with those of rounding to nearest, nor between seeds or tensors. Smaller gradients are exact.
Also compares the bytes that ranks sum with the formula, and two runs to the last bit."""

import struct
import sys

import harness
import ranks

BATCH, LENGTH, BLOCK, LEAST = 2, 16, 256, 4096


def tensors_of(path):
    return {
        name: list(struct.unpack(f"<{len(data) // 4}f", data))
        for name, (_, _, data) in harness.saved_tensors(path).items()
    }


def main(options, mpirun, kilnc, model, work, *flags):
    parts, seeds = options["dp"], options["seeds"]
    work = harness.fresh_directory(work)
    harness.write_inputs(model, work)
    common = ["--max-threads=1", f"--seq={LENGTH}", "--optimizer=sgd", "--clip=off", "--emit-gradients"]
    mesh = [f"--mesh=dp={parts}", f"--batch={BATCH}", *flags]
    coded = harness.compile_model(kilnc, model, work / "coded", *common, *mesh, "--compress-gradients=int8")
    one = harness.compile_model(kilnc, model, work / "one", *common, f"--batch={BATCH * parts}")
    data, start = f"--data={work / 'train.bin'}", f"--init={work / 'model.safetensors'}"

    # One rank computes the sums, and with a mask the gradients of each rank. Target t is token
    # t + 1. The sequence with index t // LENGTH contains it.
    def gradients(name, *more):
        dumped = work / f"{name}.safetensors"
        harness.run([one, data, start, "--steps=1", "--seed=5", f"--dump-gradients={dumped}", *more])
        return tensors_of(dumped)

    exact = gradients("exact")
    own = []
    tokens = (work / "train.bin").stat().st_size // 2 - 512
    for part in range(parts):
        mask = work / "part.mask"
        used = bytes([0] + [int(t // LENGTH // BATCH == part) for t in range(parts * BATCH * LENGTH)])
        mask.write_bytes(used + bytes([1]) * (tokens - len(used)))
        own.append(gradients(f"part{part}", f"--loss-mask={mask}"))

    compressed = {name for name, values in exact.items() if len(values) >= LEAST and len(values) % BLOCK == 0}
    if not compressed or compressed == exact.keys():
        harness.fail(f"{len(compressed)} of {len(exact)} gradients are compressed")
    errors = {name: [] for name in compressed}  # In units of the scale, of each seed.
    nearest = {name: [0.0] * len(exact[name]) for name in compressed}
    variance = 0.0
    for name in compressed:
        for block in range(0, len(exact[name]), BLOCK):
            scale = sum(max(map(abs, each[name][block : block + BLOCK])) / parts for each in own) / (127 - parts)
            for each in own if scale else ():
                for i in range(block, block + BLOCK):
                    code = each[name][i] / parts / scale
                    nearest[name][i] += round(code) - code
                    variance += (code % 1) * (1 - code % 1)
    worst = 0.0
    for seed in range(seeds):
        dumped, log = work / f"coded{seed}.safetensors", work / f"coded{seed}.jsonl"
        arguments = [data, start, "--steps=1", f"--seed={seed}", f"--log={log}", f"--dump-gradients={dumped}"]
        ranks.run(mpirun, parts, coded, *arguments)
        for name, found in tensors_of(dumped).items():
            if name in compressed:
                errors[name].append([0.0] * len(found))
            size = max(map(abs, exact[name]))
            for block in range(0, len(found), BLOCK):
                end = min(block + BLOCK, len(found))
                # Gradients of a rank are means over its own targets.
                largest = sum(max(map(abs, each[name][block:end])) / parts for each in own)
                scale = largest / (127 - parts) if name in compressed else 0
                for i in range(block, end):
                    error = found[i] - exact[name][i]
                    if not abs(error) <= parts * scale * 1.001 + 1e-5 * size:
                        harness.fail(f"element {i} of '{name}' is {found[i]}, expected {exact[name][i]} +- {parts} * {scale}")
                    if scale:
                        worst = max(worst, abs(error) / scale)
                        errors[name][-1][i] = error / scale
    squares = sum(e * e for name in compressed for each in errors[name] for e in each)
    if not 0.97 < squares / (seeds * variance) < 1.03:
        harness.fail(f"the variance of errors is {squares / (seeds * variance)} times that of independent rounding")

    def require_uncorrelated(what, a, b):
        correlation = sum(x * y for x, y in zip(a, b)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5
        if not abs(correlation) < 6 / min(len(a), len(b)) ** 0.5:
            harness.fail(f"the correlation of errors of {what} is {correlation}")

    first, second = [[e for name in sorted(compressed) for e in errors[name][seed]] for seed in (0, 1)]
    require_uncorrelated("two seeds", first, second)
    require_uncorrelated("rounding to nearest", first, [e for name in sorted(compressed) for e in nearest[name]])
    names = sorted(compressed, key=lambda name: (len(exact[name]), name))
    for one_name, other in zip(names, names[1:]):
        count = len(exact[one_name])
        require_uncorrelated(f"'{one_name}' and '{other}'", errors[one_name][0], errors[other][0][:count])
    print(f"errors are at most {worst:.2f} codes")

    sent = sum(len(exact[n]) + 4 * len(exact[n]) // BLOCK if n in compressed else 4 * len(exact[n]) for n in exact)
    begin = harness.events(work / "coded0.jsonl", "start")[0]
    if begin["all_reduced_bytes_per_step"] != sent + 8:
        harness.fail(f"{begin['all_reduced_bytes_per_step']} bytes are summed, expected {sent + 8}")

    def run(name):
        log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
        ranks.run(mpirun, parts, coded, data, start, "--steps=6", "--lr=0.1", f"--log={log}", f"--save={saved}")
        return log, saved

    harness.require_equal_runs("two runs", *run("first"), *run("second"))


options, arguments = harness.leading_options(sys.argv[1:], dp=2, seeds=4)
main(options, *arguments)
