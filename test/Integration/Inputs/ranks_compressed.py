# ===- ranks_compressed.py - Compressed sums of gradients ---------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""ranks_compressed.py [--dp=2] [--scheme=powersgd:2] [--steps=3] [--tolerance=1e-9] MPIRUN KILNC
MODEL WORK [compile flags]: trains with SGD on ranks that sum compressed gradients, in f64, and
compares the weights and the states of the scheme after every step with compression_schemes.py. One
rank computes the gradients of the targets of each data-parallel rank, at the weights of the
simulation. They must agree to `tolerance`. Also compares the bytes that ranks sum with the formula,
and two runs and one that is resumed, to the last bit."""

import math
import struct
import sys

import compression_schemes
import harness
import ranks

BATCH, LENGTH, RATE = 2, 16, 0.05


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
    def __init__(self, saved, model, parts, scheme):
        self.parts, self.scheme = parts, scheme
        self.header = model.read_bytes()
        self.begin = 8 + struct.unpack("<Q", self.header[:8])[0]
        self.weights = tensors_of(model)
        self.states = {}
        for name, (shape, numbers) in tensors_of(saved / "optimizer.safetensors").items():
            parameter, _, slot = name.rpartition(".")
            expected = scheme.shapes(parts, *self.weights[parameter][0])[slot]
            if list(shape) != expected:
                harness.fail(f"'{name}' has shape {shape}, expected {expected}")
            rows = matrix(numbers, shape[-1])
            if slot == "error":
                rows = [rows[i : i + shape[1]] for i in range(0, len(rows), shape[1])]
            self.states.setdefault(parameter, {})[slot] = rows

    def write(self, path):
        values = flat(numbers for _, numbers in self.weights.values())
        path.write_bytes(self.header[: self.begin] + struct.pack(f"<{len(values)}d", *values))
        return path

    def step(self, gradients):
        for name, (shape, weight) in self.weights.items():
            parts = [[x / self.parts for x in each[name][1]] for each in gradients]
            if name in self.states:
                matrices = [matrix(part, shape[1]) for part in parts]
                total = flat(self.scheme.step(matrices, self.states[name]))
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
    parts, steps = options["dp"], options["steps"]
    scheme = compression_schemes.scheme_of(options["scheme"])
    work = harness.fresh_directory(work)
    harness.write_inputs(model, work)
    common = ["--max-threads=1", "--precision=fp64", f"--seq={LENGTH}", "--optimizer=sgd", "--clip=off", *flags]
    several = harness.compile_model(
        kilnc, model, work / "several", *common, f"--mesh=dp={parts}", f"--batch={BATCH}",
        f"--compress-gradients={options['scheme']}",
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
    simulation = Simulation(untrained / "checkpoint-0", untrained / "checkpoint-0" / "model.safetensors", parts, scheme)
    if not simulation.states:
        harness.fail("no gradient is compressed")

    # One scalar is summed: the loss. ZeRO sums gradients that are not compressed into shards.
    begin = harness.events(log, "start")[0]
    divides = any(flag.startswith("--zero=") for flag in flags)
    sent = 0
    for name, (shape, _) in simulation.weights.items():
        elements = scheme.summed_elements(*shape) if len(shape) == 2 else None
        if (elements is not None) != (name in simulation.states):
            harness.fail(f"'{name}' is {'not ' if elements else ''}compressed")
        sent += elements or (0 if divides else math.prod(shape))
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


options, arguments = harness.leading_options(sys.argv[1:], dp=2, scheme="powersgd:2", steps=3, tolerance=1e-9)
main(options, *arguments)
