#!/usr/bin/env python3
# ===- compare.py - Training runs against expectations -----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compares the output of a kiln executable with an expectation.

    compare.py cases/CASE.json [--log=F.jsonl] [--gradients=F.safetensors]
               [--weights=F.safetensors|DIR] [tolerances]

Compares the losses, learning rates, gradient norms and last evaluation of the log, the
gradients of the first step before clipping (--dump-gradients) and the final weights
(--save), if they are given. Prints the worst value of each kind as a multiple of its
tolerance. The exit code is 1 if one is above 1, and 2 if an input cannot be used. Only the
standard library is used.

A tensor agrees if the norm of its difference, estimated from its projections (digest.py), is
at most rtol times its norm, and if every sampled entry is within 4 rtol of the larger of its
magnitude and the tensor's root mean square; both have an absolute floor, --floor times the
norm of all tensors. The defaults are the tolerances of f32 runs.
"""

import argparse
import array
import json
import math
import pathlib
import re
import struct
import sys

import digest

# Maximum error of about 1000 samples, in units of the tensor's error.
SAMPLE_SPREAD = 4.0


class BadInput(Exception):
    pass


def plain_name(name):
    """Returns the name in the model's file, without prefixes that writers add."""
    for prefix in ("gradient:", "base_model.model.", "transformer."):
        name = name.removeprefix(prefix)
    return name


def read_safetensors(path):
    """Returns the tensors of a file as flat arrays of floats, by plain name."""
    raw = pathlib.Path(path).read_bytes()
    if len(raw) < 8:
        raise BadInput(f"{path}: {len(raw)} bytes are no safetensors file")
    (size,) = struct.unpack("<Q", raw[:8])
    if size > len(raw) - 8:
        raise BadInput(f"{path}: header of {size} bytes in a file of {len(raw)}")
    try:
        header = json.loads(raw[8 : 8 + size])
    except ValueError as error:
        raise BadInput(f"{path}: header: {error}") from error
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        code = {"F32": "f", "F64": "d"}.get(entry["dtype"])
        if not code:
            raise BadInput(f"{path}: '{name}' is {entry['dtype']}, not F32 or F64")
        begin, end = entry["data_offsets"]
        width = {"f": 4, "d": 8}[code]
        payload = raw[8 + size + begin : 8 + size + end]
        if len(payload) != width * math.prod(entry["shape"]):
            raise BadInput(f"{path}: '{name}' has {len(payload)} bytes, not its shape's")
        data = array.array(code, payload)
        if sys.byteorder == "big":
            data.byteswap()
        tensors[plain_name(name)] = data
    return tensors


def newest_model(path):
    """Returns a file itself, or the model or adapter in a directory's last checkpoint."""
    path = pathlib.Path(path)
    if path.is_file():
        return path
    found = sorted(
        path.rglob("*model.safetensors"),
        key=lambda p: [int(n) for n in re.findall(r"\d+", str(p.relative_to(path)))],
    )
    if not found:
        raise BadInput(f"{path}: no model.safetensors in it")
    return found[-1]


def read_log(path):
    """Returns (step lines, evaluation lines) of a JSONL log."""
    steps, evaluations = [], []
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise BadInput(f"{path}:{number}: {error}") from error
        event = entry.get("event", "step")
        if event == "step" and "loss" in entry:
            steps.append(entry)
        elif event == "eval":
            evaluations.append(entry)
    return steps, evaluations


class Table:
    """Values as multiples of their tolerance, and the worst of each kind."""

    def __init__(self):
        self.worst = {}
        self.missing = []

    def add(self, kind, where, error, tolerance):
        ratio = error / tolerance if tolerance > 0 else (math.inf if error else 0.0)
        if not math.isfinite(error):
            ratio = math.inf
        if kind not in self.worst or ratio > self.worst[kind][0]:
            self.worst[kind] = (ratio, error, tolerance, where)

    def print(self):
        row = "{:<18} {:>10} {:>10} {:>10}  {}"
        print(row.format("", "x allowed", "error", "allowed", "worst at"))
        for kind, (ratio, error, tolerance, where) in self.worst.items():
            figures = (f"{x:.3g}" for x in (ratio, error, tolerance))
            print(row.format(kind, *figures, where))
        for text in self.missing:
            print("missing: " + text)

    def passed(self):
        return not self.missing and all(w[0] <= 1 for w in self.worst.values())


def number(entry, key):
    """Returns a number of a log line; null, which represents non-finite numbers, becomes
    NaN."""
    value = entry.get(key)
    return math.nan if value is None else float(value)


def compare_log(table, expected, path, arguments):
    steps, evaluations = read_log(path)
    if len(steps) != len(expected["steps"]):
        table.missing.append(f"{len(steps)} of {len(expected['steps'])} steps in {path}")
    with_norm = "--clip=off" not in expected["compile_flags"]
    tolerances = [("loss", arguments.loss_rtol), ("lr", 1e-12)]
    if with_norm:
        tolerances.append(("grad_norm", arguments.gradient_rtol))
    for index, (want, got) in enumerate(zip(expected["steps"], steps)):
        for key, rtol in tolerances:
            error = abs(number(got, key) - want[key])
            table.add(key, f"step {index}", error, rtol * abs(want[key]))
    if evaluations:
        want = expected["evaluation"]["last"]
        error = abs(number(evaluations[-1], "loss") - want)
        table.add("evaluation loss", "the end", error, arguments.loss_rtol * want)


def compare_tensors(table, kind, expected, path, rtol, floor):
    found = read_safetensors(path)
    total = math.sqrt(sum(want["norm"] ** 2 for want in expected.values()))
    for name, want in expected.items():
        data = found.pop(plain_name(name), None)
        if data is None or len(data) != want["count"]:
            size = "nothing" if data is None else f"{len(data)} elements"
            table.missing.append(
                f"{kind} of {name}: {want['count']} elements expected, {size} in {path}"
            )
            continue
        allowed = rtol * want["norm"] + floor * total
        # The projection vectors are derived from the name in the expectation.
        table.add(kind, name, digest.difference(want, name, data), allowed)
        norm_error = abs(digest.norm(data) - want["norm"])
        table.add(kind + " norm", name, norm_error, allowed)
        sum_error = abs(math.fsum(data) - want["sum"])
        table.add(kind + " sum", name, sum_error, allowed * math.sqrt(want["count"]))
        mean_square = want["norm"] / math.sqrt(want["count"])
        for position, sample in zip(want["positions"], want["samples"]):
            size = max(abs(sample), mean_square)
            table.add(
                kind + " entry",
                f"{name}[{position}]",
                abs(data[position] - sample),
                SAMPLE_SPREAD * rtol * size + floor * total,
            )


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("expectation")
    parser.add_argument("--log")
    parser.add_argument("--gradients")
    parser.add_argument("--weights")
    parser.add_argument("--loss-rtol", type=float, default=1e-6)
    parser.add_argument("--gradient-rtol", type=float, default=3e-6)
    parser.add_argument("--weight-rtol", type=float, default=1e-4)
    parser.add_argument("--floor", type=float, default=1e-7)
    arguments = parser.parse_args(argv)
    path = pathlib.Path(arguments.expectation)
    table = Table()
    try:
        expected = json.loads(path.read_text())
        if arguments.log:
            compare_log(table, expected, arguments.log, arguments)
        if arguments.gradients:
            name = expected.get("gradients", expected["model"])
            file = path.parent.parent / "gradients" / (name + ".json")
            gradients = json.loads(file.read_text())["gradients"]
            compare_tensors(
                table,
                "gradient",
                gradients,
                arguments.gradients,
                arguments.gradient_rtol,
                arguments.floor,
            )
        if arguments.weights and "weights" in expected:
            compare_tensors(
                table,
                "weight",
                expected["weights"],
                newest_model(arguments.weights),
                arguments.weight_rtol,
                arguments.floor,
            )
    except (BadInput, OSError) as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    if not table.worst and not table.missing:
        print("compare.py: nothing to compare: give --log, --gradients or --weights")
        return 2
    table.print()
    return 0 if table.passed() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
