# ===- planted_faults.py - Wrong plans are detected --------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""planted_faults.py EXECUTABLE WORK EVERY: tests the checks themselves. In each copy of an
executable, the plan is wrong for one slot: it is one byte too small, or its lifetime is one
command too short. --check-memory must reject each copy; one of EVERY faults is tested.

The last byte of a result may happen to equal the previous contents of the memory. In that
case a slot that is one element too small must be rejected. Workspaces may be larger than
needed, and inputs are written by the driver instead of commands, so neither is tested."""

import os
import pathlib
import re
import subprocess
import sys

import harness

executable, work, every = sys.argv[1:]
executable = pathlib.Path(executable).resolve()
work = harness.fresh_directory(work)
content = pathlib.Path(executable).read_bytes()
slot_pattern = re.compile(
    rb'\{"alignment":\d+,"bytes":(\d+),"class":"(\w+)",(?:"dtype":"\w+",)?"first":(\d+),"last":(\d+),"name":"([^"]*)"'
)
# States are live during the whole run, so their memory cannot be reused.
STATES = (b"parameter", b"optimizer", b"constant")
SIZE_UNCHECKED = (b"workspace", b"input")


def caught(span, value):
    """Returns true if the executable with another number at this position is rejected."""
    begin, end = span
    changed = str(value).encode().ljust(end - begin)
    copy = work / "faulty"
    copy.write_bytes(content[:begin] + changed + content[end:])
    os.chmod(copy, 0o755)
    done = subprocess.run([copy, "--check-memory"], capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        harness.fail(f"exit code {done.returncode}: {done.stderr}")
    return done.returncode != 0


if subprocess.run([executable, "--check-memory"], capture_output=True).returncode:
    harness.fail("the plan is refused although nothing was changed")
faults = []
# The description also contains a plan for readers, which precedes the programs.
start = content.index(b'"programs":{"evaluate":{"inputs":[')
for slot in slot_pattern.finditer(content, start):
    size, kind, first, last, name = slot.groups()
    what = f"{name.decode()} ({kind.decode()}, {int(size)} bytes, commands {int(first)} to {int(last)})"
    if kind in STATES:
        continue
    if kind not in SIZE_UNCHECKED:
        faults.append((slot.span(1), [int(size) - 1, int(size) - 4], f"{what} is too small"))
    # An output is last used by its reader, after the last command.
    if kind != b"output" and int(last) > int(first):
        faults.append((slot.span(4), [int(last) - 1], f"{what} does not live long enough"))
missed = [what for span, values, what in faults[:: int(every)] if not any(caught(span, v) for v in values)]
print("\n".join(missed))
print(f"{len(missed)} of {len(faults[:: int(every)])} faults were missed")
if missed or len(faults) < 100:
    harness.fail(f"{len(missed)} of {len(faults)} faults were missed")
