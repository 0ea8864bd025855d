# ===- ranks_powersgd.py - Compressed sums of gradients -----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_powersgd.py [--dp=2] [--rank=2] [--steps=3] [--tolerance=1e-9] MPIRUN KILNC MODEL WORK
[compile flags]: trains with SGD on ranks that sum gradients with PowerSGD, in f64, and compares the
weights, errors and bases after every step with PowerSGD in Python. One rank computes the gradients
of the targets of each data-parallel rank, at the weights of the simulation. They must agree to
`tolerance`. Also compares the bytes that ranks sum with the formula, and two runs and one that is
resumed, to the last bit."""

import struct
import sys

import harness
import ranks

BATCH, LENGTH, RATE = 2, 16, 0.05
LEAST_SQUARE, LEAST_PART, KEPT_BASIS = 1e-35, 1e-24, 1e-15


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def orthonormal(rows):
    """Returns the rows that modified Gram-Schmidt makes of `rows`."""
    done = []
    for row in rows:
        lost = LEAST_PART * dot(row, row) + LEAST_SQUARE
        for other in done:
            factor = dot(row, other)
            row = [x - factor * y for x, y in zip(row, other)]
        scale = (dot(row, row) + lost) ** -0.5
        done.append([x * scale for x in row])
    return done


def summed(matrices):
    return [[sum(column) for column in zip(*rows)] for rows in zip(*matrices)]


def power_sgd(parts, errors, basis):
    """One step of PowerSGD. Returns the sum of the matrices `parts` of all ranks, and their new
    errors and basis."""
    corrected = [summed([part, error]) for part, error in zip(parts, errors)]
    old = orthonormal(basis)
    left = orthonormal(summed([[[dot(q, row) for row in d] for q in old] for d in corrected]))
    own = [[[dot(p, column) for column in zip(*d)] for p in left] for d in corrected]
    right = summed(own)

    def product(factor):
        columns = list(zip(*factor))
        return [[dot(weights, column) for column in columns] for weights in zip(*left)]

    total = product(right)
    errors = [
        [[x - y for x, y in zip(row, sent)] for row, sent in zip(d, product(factor))] for d, factor in zip(corrected, own)
    ]
    basis = [[x + KEPT_BASIS * y for x, y in zip(new, kept)] for new, kept in zip(right, old)]
    return total, errors, basis


def tensors_of(path):
    """Returns the shape and the numbers of each tensor of a file."""
    return {
        name: (shape, list(struct.unpack(f"<{len(data) // 8}d", data)))
        for name, (_, shape, data) in harness.saved_tensors(path).items()
    }


def matrix(numbers, width):
    return [numbers[i : i + width] for i in range(0, len(numbers), width)]


def flat(rows):
    return [x for row in rows for x in row]


def require_close(what, found, expected, allowed):
    size = max(map(abs, expected))
    worst = max(abs(a - b) for a, b in zip(found, expected, strict=True)) / max(size, 1e-300)
    if not worst <= allowed:
        harness.fail(f"{what} differs from the simulation by {worst}, expected at most {allowed}")
    return worst


class Simulation:
    def __init__(self, saved, model, parts, rank):
        self.parts = parts
        self.header = model.read_bytes()
        self.begin = 8 + struct.unpack("<Q", self.header[:8])[0]
        self.weights = tensors_of(model)
        self.states = {}
        for name, (shape, numbers) in tensors_of(saved / "optimizer.safetensors").items():
            parameter, _, slot = name.rpartition(".")
            if (len(shape), shape[0]) != ((3, parts) if slot == "error" else (2, rank)):
                harness.fail(f"'{name}' has shape {shape}")
            rows = matrix(numbers, shape[-1])
            rows = rows if slot == "basis" else [rows[i : i + shape[1]] for i in range(0, len(rows), shape[1])]
            self.states.setdefault(parameter, {})[slot] = rows

    def write(self, path):
        values = flat(numbers for _, numbers in self.weights.values())
        path.write_bytes(self.header[: self.begin] + struct.pack(f"<{len(values)}d", *values))
        return path

    def step(self, gradients):
        for name, (shape, weight) in self.weights.items():
            parts = [[x / self.parts for x in each[name][1]] for each in gradients]
            if name in self.states:
                state = self.states[name]
                matrices = [matrix(part, shape[1]) for part in parts]
                total, state["error"], state["basis"] = power_sgd(matrices, state["error"], state["basis"])
                total = flat(total)
            else:
                total = [sum(column) for column in zip(*parts)]
            self.weights[name] = (shape, [w - RATE * g for w, g in zip(weight, total)])

    def compare(self, checkpoint, allowed):
        worst = 0.0
        for name, (_, found) in tensors_of(checkpoint / "model.safetensors").items():
            worst = max(worst, require_close(f"'{name}'", found, self.weights[name][1], allowed))
        for name, (_, found) in tensors_of(checkpoint / "optimizer.safetensors").items():
            parameter, _, slot = name.rpartition(".")
            expected = self.states[parameter][slot]
            expected = flat(flat(expected) if slot == "error" else expected)
            worst = max(worst, require_close(f"'{name}'", found, expected, allowed))
        return worst


def main(options, mpirun, kilnc, model, work, *flags):
    parts, rank, steps = options["dp"], options["rank"], options["steps"]
    work = harness.fresh_directory(work)
    harness.write_inputs(model, work)
    common = ["--max-threads=1", "--precision=fp64", f"--seq={LENGTH}", "--optimizer=sgd", "--clip=off", *flags]
    several = harness.compile_model(
        kilnc, model, work / "several", *common, f"--mesh=dp={parts}", f"--batch={BATCH}",
        f"--compress-gradients=powersgd:{rank}",
    )
    one = harness.compile_model(
        kilnc, model, work / "one", "--max-threads=1", "--precision=fp64", f"--seq={LENGTH}", "--optimizer=sgd",
        "--clip=off", "--emit-gradients", f"--batch={BATCH * parts}",
    )
    arguments = [f"--data={work / 'train.bin'}", "--seed=5", f"--lr={RATE}", "--lr-schedule=constant", "--keep=99"]
    start = f"--init={work / 'model.safetensors'}"

    def run(name, count, *more):
        log, saved = work / f"{name}.jsonl", work / f"{name}.saved"
        ranks.run(
            mpirun, parts, several, *arguments, f"--steps={count}", f"--log={log}", f"--save={saved}", "--save-every=1",
            *more,
        )
        return log, saved

    _, untrained = run("untrained", 0, start)
    log, saved = run("several", steps, start)
    simulation = Simulation(untrained / "checkpoint-0", untrained / "checkpoint-0" / "model.safetensors", parts, rank)
    if not simulation.states:
        harness.fail("no gradient is compressed")

    # One scalar is summed: the loss. ZeRO sums gradients that are not compressed into shards.
    begin = harness.events(log, "start")[0]
    divides = any(flag.startswith("--zero=") for flag in flags)
    sent = 0
    for name, (shape, numbers) in simulation.weights.items():
        compressed = name in simulation.states
        if compressed != (len(shape) == 2 and 2 * rank * sum(shape) <= len(numbers)):
            harness.fail(f"'{name}' is {'' if compressed else 'not '}compressed")
        sent += rank * sum(shape) if compressed else 0 if divides else len(numbers)
    if begin["all_reduced_bytes_per_step"] != 8 * sent + 8:
        harness.fail(f"{begin['all_reduced_bytes_per_step']} bytes are summed, expected {8 * sent + 8}")

    raw = (work / "train.bin").read_bytes()
    tokens = struct.unpack(f"<{(len(raw) - 1024) // 2}H", raw[1024:])
    size = parts * BATCH * LENGTH
    worst = 0.0
    for step in range(steps):
        data, mask, gradients = work / "step.bin", work / "step.mask", []
        harness.make_weights.write_tokens(data, tokens[step * size : (step + 1) * size + 1])
        weights = simulation.write(work / "step.safetensors")
        for part in range(parts):
            # Target t is token t + 1. The sequence with index t // LENGTH contains it.
            mask.write_bytes(bytes([0] + [int(t // LENGTH // BATCH == part) for t in range(size)]))
            dumped = work / f"gradients{part}.safetensors"
            harness.run(
                [one, f"--data={data}", f"--loss-mask={mask}", f"--init={weights}", "--steps=1", "--seed=5",
                 f"--dump-gradients={dumped}"]
            )
            gradients.append(tensors_of(dumped))
        simulation.step(gradients)
        worst = max(worst, simulation.compare(saved / f"checkpoint-{step + 1}", options["tolerance"]))
    print(f"the simulation of {steps} steps agrees to {worst:.1e}; {8 * sent} bytes are summed in a step")

    again = run("again", steps, start)
    harness.require_equal_runs("two runs", log, saved, *again)
    _, rest = run("rest", steps, f"--resume={saved / 'checkpoint-1'}")
    for name in ("model.safetensors", "optimizer.safetensors"):
        if (rest / f"checkpoint-{steps}" / name).read_bytes() != (saved / f"checkpoint-{steps}" / name).read_bytes():
            harness.fail(f"a resumed run ends with another {name}")


options, arguments = harness.leading_options(sys.argv[1:], dp=2, rank=2, steps=3, tolerance=1e-9)
main(options, *arguments)
