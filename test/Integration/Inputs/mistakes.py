# ===- mistakes.py - Errors for mistakes of new users ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""mistakes.py TABLE EXAMPLES WORK: creates the working directory WORK of a new user and runs
every command of the table in it. Each command must end with its exit code, print nothing to
stdout and exactly the line of the table to stderr, and leave the directory unchanged.
`<...>` in the table matches any text.

An entry of the table is
    # The mistake of the user.
    $ COMMAND
    EXIT CODE: MESSAGE
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys

import harness

SMALL = ["--batch=2", "--seq=16", "--max-threads=2"]


def read_table(path):
    """Returns the entries as (line number, command, exit code, message)."""
    entries = []
    lines = [line for line in enumerate(pathlib.Path(path).read_text().splitlines(), 1) if line[1]]
    if len(lines) % 3:
        harness.fail(f"{path} has {len(lines)} lines, expected three per entry")
    for (_, what), (number, command), (_, answer) in zip(*[iter(lines)] * 3):
        found = re.fullmatch(r"(\d+): (.*)", answer)
        if not what.startswith("# ") or not command.startswith("$ ") or not found:
            harness.fail(f"{path}:{number}: expected '# WHAT', '$ COMMAND' and 'CODE: MESSAGE'")
        entries.append((number, command[2:], int(found[1]), found[2]))
    return entries


def write_tokens(path, ids):
    """Writes an llm.c token file."""
    header = struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253)
    pathlib.Path(path).write_bytes(header + struct.pack(f"<{len(ids)}H", *ids))


def write_model(path, example, **changes):
    """Writes a model directory: the example's configuration with some keys changed or
    removed."""
    config = json.loads((example / "config.json").read_text())
    config.update(changes)
    os.mkdir(path)
    config = {key: value for key, value in config.items() if value is not None}
    pathlib.Path(path, "config.json").write_text(json.dumps(config, indent=2) + "\n")


def write_workplace(examples):
    """Creates a user's files: models, text, an executable, a checkpoint, and broken ones."""
    gpt2, llama = pathlib.Path(examples, "tiny-gpt2"), pathlib.Path(examples, "tiny-llama")
    write_model("model", gpt2)
    write_model("wider", gpt2, n_embd=256)
    write_model("llama", llama)
    pathlib.Path("book.txt").write_text("to be or not to be, that is the question: " * 40)
    for name, flags in (("train", []), ("slow", ["--clip=off", "--eval=off"])):
        harness.compile_model("kilnc", "model", name, *SMALL, *flags)
    harness.compile_model("kilnc", "llama", "train-llama", *SMALL)
    harness.compile_model("kilnc", "model", "step.mlir", *SMALL, "--emit=step")
    harness.run(["./train", "--data=book.txt", "--steps=2", "--save=saved"])
    shutil.copytree("saved/checkpoint-2", "trained")
    harness.compile_model("kilnc", "trained", "continue", *SMALL)
    harness.compile_model("kilnc", "wider", "train-wider", *SMALL)
    shutil.copytree("saved", "damaged")
    with open("damaged/checkpoint-2/model.safetensors", "r+b") as weights:
        weights.seek(-1, os.SEEK_END)
        weights.write(b"?")

    write_model("bert", gpt2, model_type="bert", architectures=None)
    write_model("incomplete", gpt2, n_embd=None)
    write_model("uneven", gpt2, n_head=5)
    write_model("unsure", gpt2, n_layer="four")
    write_model("torch", gpt2)
    pathlib.Path("torch/pytorch_model.bin").write_bytes(b"PK\3\4 made by torch.save")
    os.mkdir("empty")
    os.mkdir("comma")
    pathlib.Path("comma/config.json").write_text('{"model_type": "gpt2",}\n')
    write_tokens("gpt2-tokens.bin", [50000] * 100)
    write_tokens("cut.bin", [1] * 100)
    os.truncate("cut.bin", 1100)
    pathlib.Path("short.txt").write_text("to be")
    pathlib.Path("nothing.txt").write_text("")
    pathlib.Path("table.csv").write_text("a,b\n1,2\n")
    pathlib.Path("notes.mlir").write_text("my model has four layers\n")
    os.chmod("train-wider", 0o644)


def snapshot():
    found = {}
    for path in sorted(pathlib.Path(".").rglob("*")):
        facts = path.lstat()
        # The time of a directory changes when a temporary file is created and removed.
        is_file = path.is_file()
        found[str(path)] = (facts.st_mode, facts.st_size, facts.st_mtime_ns) if is_file else facts.st_mode
    return found


def main():
    table, examples, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    entries = read_table(table)
    os.chdir(harness.fresh_directory(work))
    write_workplace(examples)
    before = snapshot()
    wrong = 0
    for number, command, code, message in entries:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        said = done.stderr.removesuffix("\n")
        expected = ".*".join(re.escape(part) for part in message.split("<...>"))
        after = snapshot()
        changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        problems = [f"wrote or changed {', '.join(changed)}"] if changed else []
        if done.stdout:
            problems.append(f"printed {done.stdout!r}")
        if done.returncode != code or not re.fullmatch(expected, said):
            problems.append(f"expected\n{code}: {message}\nand found\n{done.returncode}: {said}")
        if problems:
            print(f"{table}:{number}: $ {command}", *problems, sep="\n", flush=True)
            wrong += 1
        before = after
    if wrong:
        harness.fail(f"{wrong} of {len(entries)} mistakes are answered in another way")
    print(f"all {len(entries)} mistakes are answered as the table says, and nothing was written")


main()
