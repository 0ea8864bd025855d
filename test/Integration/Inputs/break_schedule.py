# ===- break_schedule.py - Schedules that reuse memory too early -------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""break_schedule.py SCHEDULE.mlir WORK.mlir KILN-OPT: in copies of a scheduled program
that kilnc made, one thing is wrong: a wait stands behind the next command that touches
what its copy writes; a slot lies where another one lives; a slot's life is a command
too short. --kiln-verify-schedule must refuse each. A few of each kind are tried."""

import pathlib
import re
import subprocess
import sys

import harness

TRIED = 4  # Of each kind.

schedule, work, opt = sys.argv[1:]
lines = pathlib.Path(schedule).read_text().splitlines()
begin = next(i for i, line in enumerate(lines) if "kilnrt.program @train" in line)
slots, starts = {}, {}
for i in range(begin + 1, len(lines)):
    slot = re.match(
        r' +(%\S+) = kilnrt\.slot ".*" class +(\w+) offset (\d+) bytes (\d+) .*?lifetime ?\[(\d+), (\d+)\](.*)', lines[i]
    )
    if slot:
        name, kind, *numbers, rest = slot.groups()
        slots[name] = (i, kind, *map(int, numbers), "host" in rest)
    start = re.match(r" +(%\S+) = kilnrt\.copy_start %\S+ to (%\S+) ", lines[i])
    if start:
        starts[start[1]] = (i, start[2])
if not slots or not starts:
    harness.fail(f"no slots or no copies in {schedule}")


def is_border(line):
    return "kilnrt.loop" in line or line.strip() == "}"


def late_waits():
    """The wait stands behind the next command of its block that names the destination."""
    for token, (at, to) in starts.items():
        wait = next(i for i in range(at, len(lines)) if re.match(rf" +kilnrt\.wait {re.escape(token)}$", lines[i]))
        for i in range(wait + 1, len(lines)):
            if is_border(lines[i]):
                break
            if to in re.findall(r"%\w+", lines[i]):
                yield [*lines[:wait], *lines[wait + 1 : i + 1], lines[wait], *lines[i + 1 :]]
                break


def moved_slots():
    """A slot in the place of one that lives at the same time."""
    transient = [fields for fields in slots.values() if fields[3] and fields[1] in ("activation", "gradient")]
    for (i, _, offset, _, first, last, host), (_, _, other, _, start, end, away) in zip(transient, transient[1:]):
        if host == away and first <= end and start <= last and offset != other:
            line = re.sub(r"offset \d+ bytes", f"offset {other} bytes", lines[i], count=1)
            yield [*lines[:i], line, *lines[i + 1 :]]


def short_lives():
    for i, kind, _, size, first, last, _ in slots.values():
        if kind in ("activation", "gradient") and size and last > first:
            line = lines[i].replace(f"[{first}, {last}]", f"[{first}, {last - 1}]")
            yield [*lines[:i], line, *lines[i + 1 :]]


def spread(found):
    return found[:: max(1, len(found) // TRIED)][:TRIED]


def refused(faulty):
    pathlib.Path(work).write_text("\n".join(faulty) + "\n")
    done = subprocess.run([opt, work, "--kiln-verify-schedule", "-o", "/dev/null"], capture_output=True, text=True)
    expected = "touches the destination of|lives at the same time|which lives from|lives from command"
    if done.returncode == 0:
        return False
    if not re.search(expected, done.stderr):
        harness.fail(f"refused for another reason: {done.stderr}")
    return True


missed = 0
for what, kinds in {
    "a wait behind a command that touches the copy's destination": late_waits(),
    "a slot where another one lives": moved_slots(),
    "a slot whose life is a command too short": short_lives(),
}.items():
    results = [refused(faulty) for faulty in spread(list(kinds))]
    missed += results.count(False)
    print(f"{what}: {results.count(True)} found, {results.count(False)} missed", flush=True)
if missed:
    harness.fail(f"{missed} faults were missed")
