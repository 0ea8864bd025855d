# ===- copies_in_disorder.py - Misordered copies are detected ----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""copies_in_disorder.py EXECUTABLE WORK EVERY: tests orders of copies that kilnc never
plans. In each copy of an executable with --offload, one command of the training program is
moved:

- a copy_wait after the next command that accesses the destination of the copy, or that
  writes its source: the memory is used too early;
- a copy_start before the last command that wrote its source.

None of the executables may start: one line must name the copy and the conflicting command.
One of EVERY such faults is tested."""

import json
import os
import pathlib
import subprocess
import sys

import description
import harness

executable, work, every = sys.argv[1:]
work = harness.fresh_directory(work)
content, begin, end = description.find(executable)


def elements(text, at):
    """Returns the begin, end and value of the elements of the array that begins at `at`."""
    decoder, found = json.JSONDecoder(), []
    while text[at] != "]":
        value, stop = decoder.raw_decode(text, at + 1)
        found.append((at + 1, stop, value))
        at = stop
    return found


def overlap(ref, size, other, other_size):
    """Returns true if two places share bytes in the first iteration."""
    return (
        ref[2:] == other[2:] and ref[0] < other[0] + other_size and other[0] < ref[0] + size
    )


def touches(command, ref, size, writes):
    """Returns true if a command accesses any of these bytes or, with `writes`, writes them."""
    for item in command.get("items", [command]):
        for i, (arg, extent) in enumerate(zip(item.get("args", []), item.get("extents", []))):
            if overlap(arg, extent, ref, size) and (not writes or i in item["writes"]):
                return True
    return False


text = content[begin:end].decode("latin-1")
at = text.index('"train":{"inputs":[')
for marker in ('"segments":[', '"commands":['):
    at = text.index(marker, at) + len(marker) - 1
commands = elements(text, at)
faults = []  # (description, command, new position before which it is inserted)
for i, (_, _, copy) in enumerate(commands):
    if copy["op"] != "copy_start":
        continue
    size, name = copy["bytes"], copy["name"]
    for j in range(i - 1, -1, -1):
        if commands[j][2]["op"].startswith("loop"):
            break
        if touches(commands[j][2], copy["from"], size, True):
            faults.append((f"copy_start '{name}' ({i}) in front of {j}", i, j))
            break
    waiting = False
    for j in range(i + 1, len(commands)):
        command = commands[j][2]
        if command["op"].startswith("loop"):
            break
        if command["op"] == "copy_wait" and command["token"] == copy["token"]:
            waiting = j
        elif waiting and (
            touches(command, copy["to"], size, False) or touches(command, copy["from"], size, True)
        ):
            faults.append((f"copy_wait '{name}' ({waiting}) behind {j}", waiting, j + 1))
            break


def moved(index, to):
    """Returns the executable with one command moved; its size is unchanged."""
    order = [k for k in range(len(commands)) if k != index]
    order.insert(to - (to > index), index)
    array = ",".join(text[commands[k][0] : commands[k][1]] for k in order)
    first, last = commands[0][0], commands[-1][1]
    assert len(array) == last - first, "no blanks between commands"
    changed = text[:first] + array + text[last:]
    return content[:begin] + changed.encode("latin-1") + content[end:]


missed = []
for what, index, to in faults[:: int(every)]:
    faulty = work / "faulty"
    faulty.write_bytes(moved(index, to))
    os.chmod(faulty, 0o755)
    done = subprocess.run([faulty, "--check-memory"], capture_output=True, text=True)
    lines = done.stderr.splitlines()
    if done.returncode != 1 or len(lines) != 1 or "is in flight" not in lines[0]:
        missed.append(f"{what}: exit code {done.returncode}: {done.stderr.strip()}")
    elif not missed:
        example = lines[0]
    faulty.unlink()
print(example if not missed else "\n".join(missed))
print(f"{len(missed)} of {len(faults[:: int(every)])} faults were missed")
if missed or len(faults) < 10:
    harness.fail(f"{len(missed)} of {len(faults)} faults were missed")
