# ===- data.py - Weights, tokens, logs and tensors ---------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Input and output files of the bundle's programs. All inputs are generated."""

import array
import json
import math
import pathlib
import re
import sys

EXPECTATIONS = pathlib.Path(__file__).resolve().parent.parent / "expectations"
sys.path.insert(0, str(EXPECTATIONS))
sys.dont_write_bytecode = True

import make_weights  # noqa: E402  (needs the path above)


def write_tokens(path, vocabulary, count):
    """Writes random tokens in which small ids are more frequent, so that loss decreases."""
    if path.exists():
        return
    state, ids = 1, array.array("H")
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        ids.append(int(vocabulary * ((state >> 11) * 2.0**-53) ** 2))
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    path.write_bytes(header.tobytes() + ids.tobytes())


def tokens_for(context, case, steps):
    """Returns a token file for a case; the executable restarts at its end."""
    vocabulary = context.bundle.config(case)["vocab_size"]
    sequences = case.batch * min(steps, 8 if case.large else 25)
    path = context.work / f"{case.model}-{sequences}x{case.length}.bin"
    context.work.mkdir(parents=True, exist_ok=True)
    write_tokens(path, vocabulary, sequences * case.length + 1)
    return path


def weights_for(context, case):
    """Returns the safetensors file with the initial weights of a case."""
    folder = context.work / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.model}.safetensors"
    if path.exists():
        return path
    if not case.large:
        config = context.bundle.config(case)
        tensors = [
            (name, shape, make_weights.values(name, kind, math.prod(shape)))
            for name, shape, kind in make_weights.parameters(config)
        ]
        make_weights.write_safetensors(path, tensors)
        return path
    saved = context.folder("initial", case.model)
    command = [context.bundle.executable(case, "cpu"), "--steps=0", "--from-scratch"]
    context.run([*command, "--seed=5", f"--save={saved}"])
    newest_model(saved).rename(path)
    return path


def newest_model(folder):
    """Returns the path of model.safetensors in the last checkpoint."""
    found = sorted(
        pathlib.Path(folder).glob("checkpoint-*/model.safetensors"),
        key=lambda path: int(re.findall(r"\d+", path.parent.name)[-1]),
    )
    if not found:
        raise FileNotFoundError(f"{folder} has no checkpoint")
    return found[-1]


def read_log(path):
    """Returns (start, steps, end) of a JSONL log."""
    start, steps, end = {}, [], {}
    for line in pathlib.Path(path).read_text().splitlines():
        entry = json.loads(line)
        event = entry.get("event", "step")
        if event == "start":
            start = entry
        elif event == "end":
            end = entry
        elif event == "step":
            steps.append(entry)
    return start, steps, end


def tensor_errors(context, reference, *files):
    """Returns the norm and the norms of the differences for each reference tensor."""
    done = context.run([context.bundle.tool("kiln-tensor-errors"), reference, *files])
    return [json.loads(line) for line in done.out.splitlines()]


def number(value):
    """Converts null, which JSON files have for values that are not finite, to NaN."""
    return math.nan if value is None else float(value)


def total(tensors, key):
    """Returns the Euclidean norm over all tensors; `key` returns that of one tensor."""
    return math.sqrt(sum(number(key(tensor)) ** 2 for tensor in tensors))
