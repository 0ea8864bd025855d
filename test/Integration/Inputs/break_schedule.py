# ===- break_schedule.py - Schedules that reuse memory too early -------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""break_schedule.py SCHEDULE.mlir WORK.mlir KILN-OPT [KINDS]: introduces one fault into each copy of
a scheduled program: a wait is moved after the next command that accesses the destination of
its transfer; a queue that accesses it does not wait; no wait exists for a transfer; a
command is no longer ordered after those of another queue; a slot overlaps another one; the
lifetime of a slot is one command too short. --kiln-verify-schedule must reject each copy. A
few faults of each kind are tested. KINDS is a pattern of the kinds of transfers: copies by default."""

import pathlib
import re
import subprocess
import sys

import harness

TRIED = 4  # Number of faults of each kind.

schedule, work, opt, kinds = [*sys.argv[1:], "copy"][:4]
lines = pathlib.Path(schedule).read_text().splitlines()
start = next(i for i, line in enumerate(lines) if "kilnrt.program @train" in line)
slots, views, transfers = {}, {}, []  # Slots by name, views by name, (line, token, view).
for i in range(start + 1, len(lines)):
    slot = re.match(
        r' +(%\S+) = kilnrt\.slot ".*" class (\w+)( in host)? offset (\d+) bytes (\d+) lifetime \[(\d+), (\d+)\]', lines[i]
    )
    if slot:
        name, kind, away, *numbers = slot.groups()
        slots[name] = (i, kind, *map(int, numbers), bool(away))
    view = re.match(r" +(%\S+) = kilnrt\.view (%[^[]+)\[", lines[i])
    if view:
        views.setdefault(view[1], []).append((i, view[2]))
    begin = re.match(rf' +kilnrt\.begin (?:{kinds})(?: over "\w+")? (%\S+) on .*, wo (%[^\s,)]+)\)', lines[i])
    if begin:
        transfers.append((i, begin[1], begin[2]))
if not slots or not transfers:
    harness.fail(f"no slots or no transfers of kind {kinds} in {schedule}")


def is_border(line):
    return "kilnrt.microbatches" in line or line.strip() in ("} backward {", "}")


def slot_of(place, index):
    """Returns the slot of a view that line `index` uses. The forward and the backward segment
    may have views with equal names."""
    return [slot for i, slot in views[place] if i < index][-1]


def slots_of(accesses, index):
    return {slot_of(place, index) for place in re.findall(rf"(?:{accesses}) (%[^\s,)]+)", lines[index])}


def changed(index, *replacement):
    return [*lines[:index], *replacement, *lines[index + 1 :]]


def queue_of(line):
    return re.search(r" on (@\w+)", line)[1]


def waits():
    """Returns, for each transfer, its start, its wait, and the next command in the wait's
    block that accesses its destination."""
    for at, token, to in transfers:
        wait = next(i for i in range(at, len(lines)) if re.match(rf" +kilnrt\.wait {re.escape(token)} ", lines[i]))
        for i in range(wait + 1, len(lines)):
            if is_border(lines[i]):
                break
            if slot_of(to, at) in slots_of("ro|wo|rw", i):
                yield at, wait, i
                break


def late_waits():
    """Moves a wait after the next command that accesses the destination."""
    for _, wait, i in waits():
        yield [*lines[:wait], *lines[wait + 1 : i + 1], lines[wait], *lines[i + 1 :]]


def other_queue_waits():
    """Removes the wait of the queue whose next command accesses the destination, for this
    transfer and for later ones on the same link."""
    for at, wait, i in waits():
        queues = re.findall(r"@\w+", lines[wait])
        queue = queue_of(lines[i])
        between = [line for line in lines[at + 1 : i] if line is not lines[wait]]
        if queue in queues and len(queues) > 1 and not any("kilnrt.wait" in line for line in between):
            queues.remove(queue)
            yield changed(wait, re.sub(r" on @\w+( and \[.*?\])?", f" on {queues[0]}", lines[wait]))


def unawaited():
    """Waits for an earlier transfer instead, so that the commands keep their numbers."""
    earlier = None
    for i in range(start + 1, len(lines)):
        wait = re.match(r" +kilnrt\.wait (%\S+) on ", lines[i])
        if wait and earlier:
            yield changed(i, lines[i].replace(f"{wait[1]} on", f"{earlier} on"))
        earlier = wait[1] if wait else earlier


def unordered():
    """Starts a command before the commands of another queue are complete, one of which
    writes bytes that it accesses."""
    for i in range(start + 1, len(lines)):
        if re.search(r" after \[.*?\]", lines[i]) and needs_order(i):
            yield changed(i, re.sub(r" after \[.*?\]", "", lines[i]))


def needs_order(index):
    """Returns true if a command of another queue writes bytes that this command accesses,
    and no other synchronization orders the two queues."""
    touched = slots_of("ro|wo|rw", index)
    for i in reversed(range(start, index)):
        line = lines[i]
        if "kilnrt.wait" in line or is_border(line) or " on " in line and queue_of(line) == queue_of(lines[index]):
            return False
        if touched & slots_of("wo|rw", i):
            return True
    return False


def moved_slots():
    """Moves a slot to the bytes of a slot with an overlapping lifetime."""
    transient = [fields for fields in slots.values() if fields[3] and fields[1] in ("activation", "gradient")]
    for (i, _, offset, _, first, last, host), (_, _, other, _, start, end, away) in zip(transient, transient[1:]):
        if host == away and first <= end and start <= last and offset != other:
            yield changed(i, re.sub(r"offset \d+ bytes", f"offset {other} bytes", lines[i], count=1))


def short_lives():
    for i, kind, _, size, first, last, _ in slots.values():
        if kind in ("activation", "gradient") and size and last > first:
            yield changed(i, lines[i].replace(f"[{first}, {last}]", f"[{first}, {last - 1}]"))


def spread(found):
    return found[:: max(1, len(found) // TRIED)][:TRIED]


def refused(faulty, expected):
    pathlib.Path(work).write_text("\n".join(faulty) + "\n")
    done = subprocess.run([opt, work, "--kiln-verify-schedule", "-o", "/dev/null"], capture_output=True, text=True)
    if done.returncode == 0:
        return False
    if not re.search(expected, done.stderr):
        harness.fail(f"refused for another reason: {done.stderr}")
    return True


UNORDERED, LIVES = "has no order with respect to a command on", "is (only )?live from"
missed = 0
for what, faults, expected in (
    ("a wait after a command that touches the transfer's destination", late_waits(), f"{UNORDERED}|{LIVES}"),
    ("a wait that holds up another queue", other_queue_waits(), UNORDERED),
    (
        "a transfer that nothing waits for",
        unawaited(),
        f"{UNORDERED}|no kilnrt.wait waits for|a token that no preceding command signals",
    ),
    ("a command in no order with another queue's", unordered(), UNORDERED),
    ("a slot where another one lives", moved_slots(), "is live at the same time"),
    ("a slot whose life is a command too short", short_lives(), LIVES),
):
    results = [refused(faulty, expected) for faulty in spread(list(faults))]
    missed += results.count(False)
    print(f"{what}: {results.count(True)} found, {results.count(False)} missed", flush=True)
if missed:
    harness.fail(f"{missed} faults were missed")
