#!/usr/bin/env python3
# ===- baseline.py - Records of plans, schedules and results -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Records the output of kiln for every model of the suite, and compares two records.

    baseline.py record FILE [--kilnc=build/bin/kilnc] [--only=REGEX] [--jobs=N]
    baseline.py compare OLD NEW

A record is JSON with one entry per model and set of flags, which contains:

plan      arena bytes, predictions, and one hash per field of the plan's JSON
commands  numbers of kernels, launches, matmuls and copies of the schedule
bits      hashes of the losses of a few training steps and of each saved tensor file
          (small models, targets that run without a GPU)

Plans and commands do not depend on the machine if --machine and --max-threads are fixed, as
in this script. Bits depend on the processor and on the BLAS, so both records must be made on
one machine. If kilnc rejects a model, its message is recorded.

`compare` prints each difference and ends with exit code 1 if there are any. Fields that only
NEW has are printed and do not count as differences.
"""

import argparse
import array
import collections
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = ROOT / "test/Integration/models"
SMALL = sorted(p for p in MODELS.iterdir() if p.name not in ("gpt2-124m", "gpt2-1558m"))
SMALL += [ROOT / "examples/tiny-gpt2", ROOT / "examples/tiny-llama"]
SHAPE = "--batch=4 --seq=16"
ALL_OFFLOADED = "--offload=activations,optimizer,parameters"

# {N%} stands for N percent of the arena size with the flags "plain".
SETS = {
    "plain": SHAPE,
    "fp64": f"{SHAPE} --precision=fp64 --clip=off --optimizer=sgd",
    "bf16": f"{SHAPE} --precision=bf16",
    "dropout": f"{SHAPE} --dropout=0.1 --microbatches=2 --optimizer=momentum",
    "unfused": f"{SHAPE} --fuse=off --rebuild=off --optimizer=nesterov --emit-gradients",
    "full": f"{SHAPE} --recompute=full --optimizer=adam",
    "blocks": f"{SHAPE} --recompute=blocks",
    "sqrt": f"{SHAPE} --recompute=sqrt --microbatches=4",
    "budget": f"{SHAPE} --memory-budget={{100%}}",
    "tight": f"{SHAPE} --memory-budget={{98%}} --microbatches=auto --dropout=0.1",
    "offload": f"{SHAPE} {ALL_OFFLOADED}",
    "link": f"{SHAPE} --memory-budget={{60%}} --offload=auto --simulate-link=1GB/s",
    "lossy": f"{SHAPE} --lossy=fewbit:2,rmm:0.5",
    "emu": f"{SHAPE} --target=cuda-emu",
    "emu-bf16": f"{SHAPE} --target=cuda-emu --precision=bf16 --recompute=blocks",
    "emu-offload": f"{SHAPE} --target=cuda-emu {ALL_OFFLOADED} --microbatches=2 --lossy=fewbit:3",
    "cuda": f"{SHAPE} --target=cuda --precision=bf16 --dropout=0.1",
    "cuda-budget": f"{SHAPE} --target=cuda --memory-budget={{85%}}",
}
LARGE = {
    "gpt2-124m": [
        "--batch=4 --seq=512",
        "--batch=8 --seq=512 --memory-budget=2200MiB",
        "--batch=4 --seq=256 --precision=bf16 --recompute=optimal --memory-budget=1950MiB",
        "--batch=8 --seq=1024 --target=cuda --precision=bf16 --dropout=0.1",
        "--batch=8 --seq=1024 --target=cuda --memory-budget=4GiB",
        f"--batch=2 --seq=256 {ALL_OFFLOADED} --simulate-link=200MB/s",
    ],
    "gpt2-1558m": [
        "--batch=4 --seq=1024 --target=cuda --precision=bf16 --memory-budget=26GiB",
        "--batch=8 --seq=1024 --microbatches=auto --memory-budget=28GiB",
        "--batch=2 --seq=1024 --target=cuda --memory-budget=12GiB",
    ],
}
FILES = {  # .mlir models specify their own shapes.
    "examples/mlp.mlir": ["", "--microbatches=2 --optimizer=sgd --clip=off", "--target=cuda-emu", "--recompute=full"],
}
FIXED = ["--max-threads=2"]
STEPS = 3


class Line:
    def __init__(self, name, model, flags, vocabulary, runs):
        self.name, self.model, self.flags = name, model, flags
        self.vocabulary, self.runs = vocabulary, runs


def lines_of():
    """Returns all entries; those whose arena size others refer to come first."""
    lines = []
    for model in SMALL:
        vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
        for name, flags in SETS.items():
            lines.append(Line(f"{model.name}: {name}", model, flags, vocabulary, "=cuda " not in flags))
    for name, sets in LARGE.items():
        lines += [Line(f"{name}: {flags}", MODELS / name, flags, 0, False) for flags in sets]
    for name, sets in FILES.items():
        lines += [Line(f"{name}: {flags or 'plain'}", ROOT / name, flags, 256, True) for flags in sets]
    return lines


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def run(command):
    """Returns standard output, or None and the last line of standard error."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout, ""
    text = done.stderr.strip().split("\n")[-1] or f"signal {-done.returncode}"
    return None, f"exit code {done.returncode}: {text}"


def write_tokens(path, vocabulary):
    count = 4001
    ids = [i * 2654435761 % 2**32 * vocabulary >> 32 for i in range(count)]
    header = array.array("i", [20240520, 1, count] + [0] * 253)
    path.write_bytes(header.tobytes() + array.array("H", ids).tobytes())


def train(executable, vocabulary, work):
    data, log, saved = work / "tokens.bin", work / "log.jsonl", work / "saved"
    write_tokens(data, vocabulary)
    _, refusal = run(
        [executable, f"--data={data}", f"--steps={STEPS}", "--lr=0.003", "--seed=7", "--threads=2"]
        + [f"--log={log}", f"--save={saved}"]
    )
    if refusal:
        return {"refusal": refusal.replace(str(work), "WORK")}
    events = [json.loads(line) for line in log.read_text().splitlines()]
    bits = {"losses": [event["loss"] for event in events if event.get("event", "step") == "step"]}
    if len(bits["losses"]) != STEPS:
        raise SystemExit(f"{log}: {len(bits['losses'])} losses, expected {STEPS}")
    for file in sorted((saved / f"checkpoint-{STEPS}").glob("*.safetensors")):
        bits[file.name] = digest(file.read_bytes())
    return bits


# Ops that were renamed after the first record.
RENAMED = {"kilnrt.copy_start": "kilnrt.begin", "kilnrt.microbatches": "kilnrt.loop"}
# Reasons for buffers that were reworded after the first record, and their first wording.
REWORDED = {
    "matmul, then result of its epilogue": "product, then result of its epilogue",
    "matmul of which only the results of the epilogue are kept": "product of which only the epilogue's results are kept",
    "workspace of the GEMM": "workspace of the product",
    "scratch of all threads": "scratch of every thread",
}
COUNTED = re.compile(r"^\s*(?:[%\w.$:, -]+ = )?(kilnrt\.[a-z_]+|kiln\.state)\b", re.MULTILINE)
# Views are not commands. The two segments of a micro-batch do not share them, as a loop did.
UNCOUNTED = {"kilnrt.view"}


def number_borders(plan):
    """Numbers the borders of micro-batches like commands, as plans did at the first record.
    A buffer that is live both in and outside of micro-batches is then live at the borders."""
    segments = plan.pop("segments", None)
    if not segments:
        return
    begin, end = segments["forward"][0], segments["backward"][1]

    def number(command):
        return command + (command >= begin) + (command > end)

    for buffer in plan["buffers"]:
        first, last = buffer["first"], buffer["last"]
        buffer["first"] = number(first) - (first == begin and last > end)
        buffer["last"] = number(last) + (last == end and first < begin)
    names = plan["command_names"]
    names[begin : end + 1] = ["first micro-batch", *names[begin : end + 1], "last micro-batch"]
    train = plan["programs"][plan["program"]]
    train["commands"] += 2
    train["peak_command"] = number(train["peak_command"])


def record(line, kilnc, plain):
    flags = re.sub(
        r"\{(\d+)%\}",
        lambda match: str(plain[line.model.name] * int(match[1]) // 100),
        line.flags,
    )
    compile = [kilnc, line.model, *FIXED, *shlex.split(flags)]
    entry = {"flags": flags}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        _, refusal = run([*compile, "--emit=plan", "-o", work / "plan.json"])
        if refusal:
            return {**entry, "refusal": refusal}
        plan = json.loads((work / "plan.json").read_text())
        number_borders(plan)
        for key, buffers in plan.items():
            for buffer in buffers if "buffers" in key else []:
                buffer["why"] = REWORDED.get(buffer["why"], buffer["why"])
        entry["plan"] = {
            "arena": plan["device_arena_bytes"],
            "host": plan["host_arena_bytes"],
            "ms": plan["predicted_step_ms"],
            "fields": {key: digest(json.dumps(value, sort_keys=True).encode()) for key, value in plan.items()},
        }
        schedule, refusal = run([*compile, "--emit=schedule", "-o", "-"])
        if refusal:
            return {**entry, "refusal": refusal}
        counts = collections.Counter(RENAMED.get(op, op) for op in COUNTED.findall(schedule))
        entry["commands"] = dict(sorted(counts.items()))
        if line.runs:
            _, refusal = run([*compile, "-o", work / "train"])
            entry["bits"] = {"refusal": refusal} if refusal else train(work / "train", line.vocabulary, work)
    return entry


def record_all(arguments):
    wanted = [line for line in lines_of() if re.search(arguments.only, line.name)]
    models = {line.model for line in wanted}
    lines = [line for line in lines_of() if any(line.name == other.name for other in wanted) or line.model in models and line.name.endswith(": plain")]
    entries, plain = {}, {}

    def work(line):
        entry = record(line, arguments.kilnc, plain)
        print(f"{line.name}: " + (entry.get("refusal") or f"{entry['plan']['arena']} bytes"), flush=True)
        return entry

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for first in (True, False):
            chosen = [line for line in lines if line.name.endswith(": plain") == first]
            for line, entry in zip(chosen, pool.map(work, chosen)):
                entries[line.name] = entry
                if first and "plan" in entry:
                    plain[line.model.name] = entry["plan"]["arena"]
    entries = {line.name: entries[line.name] for line in lines if re.search(arguments.only, line.name)}
    arguments.files[0].write_text(json.dumps(entries, indent=1) + "\n")
    refused = sum("refusal" in entry for entry in entries.values())
    print(f"{len(entries)} lines recorded, {refused} of them refusals")
    return 0


def differences(old, new, path=""):
    """Returns pairs of a location and the difference at it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield f"{path}{key}", "is missing"
            else:
                yield from differences(old[key], new[key], f"{path}{key}/")
    elif old != new:
        yield path.rstrip("/"), f"was {old}, is {new}"


def added(old, new, path=""):
    if isinstance(old, dict) and isinstance(new, dict):
        for key in new:
            if key not in old:
                yield f"{path}{key}"
            else:
                yield from added(old[key], new[key], f"{path}{key}/")


def compare(arguments):
    old, new = (json.loads(file.read_text()) for file in arguments.files)
    for entry in [*old.values(), *new.values()]:
        for op in UNCOUNTED:
            entry.get("commands", {}).pop(op, None)
    found = list(differences(old, new))
    for place, text in found:
        print(f"{place}: {text}")
    for name, count in collections.Counter(place.split("/", 1)[-1] for place in added(old, new)).items():
        print(f"only in the second record, {count} times: {name}")
    lines = {place.split("/")[0] for place, _ in found}
    print(f"{len(old) - len(lines)} of {len(old)} lines are equal")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--kilnc", type=pathlib.Path, default=ROOT / "build/bin/kilnc")
    parser.add_argument("--only", default="", help="lines whose name has this regular expression")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if len(arguments.files) != (1 if arguments.action == "record" else 2):
        parser.error("record needs one file, compare two")
    return record_all(arguments) if arguments.action == "record" else compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
