# ===- copies_in_disorder.py - Misordered copies are detected ----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""copies_in_disorder.py EXECUTABLE WORK EVERY: tests orders of copies that kilnc never
plans. In each copy of an executable with --offload, one command of a segment of the training
program is moved:

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
    """Returns true if two places share bytes for micro-batch 0 in ring slot 0."""
    return (
        (ref[-1] == "host") == (other[-1] == "host")
        and ref[0] < other[0] + other_size
        and other[0] < ref[0] + size
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
at = text.index('"segments":[', at) + len('"segments":[') - 1
faults = []  # (description, commands, command, new position before which it is inserted)


def find_faults(segment, commands):
    """Appends the faults in the commands of a segment to `faults`."""
    for i, (_, _, copy) in enumerate(commands):
        if copy["op"] != "copy_start":
            continue
        size, name = copy["bytes"], copy["name"]
        for j in range(i - 1, -1, -1):
            if touches(commands[j][2], copy["from"], size, True):
                what = f"{segment}: copy_start '{name}' ({i}) in front of {j}"
                faults.append((what, commands, i, j))
                break
        waiting = False
        for j in range(i + 1, len(commands)):
            command = commands[j][2]
            if command["op"] == "copy_wait" and command["token"] == copy["token"]:
                waiting = j
            elif waiting and (
                touches(command, copy["to"], size, False)
                or touches(command, copy["from"], size, True)
            ):
                what = f"{segment}: copy_wait '{name}' ({waiting}) behind {j}"
                faults.append((what, commands, waiting, j + 1))
                break


for start, _, segment in elements(text, at):
    place = text.index('"commands":[', start) + len('"commands":[') - 1
    find_faults(segment["name"], elements(text, place) if segment["commands"] else [])


def moved(commands, index, to):
    """Returns the executable with one command moved; its size is unchanged."""
    order = [k for k in range(len(commands)) if k != index]
    order.insert(to - (to > index), index)
    array = ",".join(text[commands[k][0] : commands[k][1]] for k in order)
    first, last = commands[0][0], commands[-1][1]
    assert len(array) == last - first, "no blanks between commands"
    changed = text[:first] + array + text[last:]
    return content[:begin] + changed.encode("latin-1") + content[end:]


missed = []
for what, commands, index, to in faults[:: int(every)]:
    faulty = work / "faulty"
    faulty.write_bytes(moved(commands, index, to))
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
