# ===- planted_faults.py - Wrong plans are noticed ---------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""planted_faults.py EXECUTABLE WORK EVERY: a check that cannot fail shows nothing. In
copies of an executable the plan is wrong for one slot: it is a byte too small, or its
life a command too short. --check-memory must refuse each; one fault of EVERY is tried.

The last byte of a result may happen to be what the memory held before; then a slot
that is an element too small must be refused. A workspace may be larger than its use,
and inputs are written by the driver, not by commands."""

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
# States live for the whole run: nothing can take their memory.
STATES = (b"parameter", b"optimizer", b"constant")
SIZE_UNCHECKED = (b"workspace", b"input")


def caught(span, value):
    """Whether the executable with another number at a place is refused."""
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
# The description holds the plan for readers too; it precedes what is run.
start = content.index(b'"programs":{"evaluate":{"inputs":[')
for slot in slot_pattern.finditer(content, start):
    size, kind, first, last, name = slot.groups()
    what = f"{name.decode()} ({kind.decode()}, {int(size)} bytes, commands {int(first)} to {int(last)})"
    if kind in STATES:
        continue
    if kind not in SIZE_UNCHECKED:
        faults.append((slot.span(1), [int(size) - 1, int(size) - 4], f"{what} is too small"))
    # The last use of an output is the reader's, after the last command.
    if kind != b"output" and int(last) > int(first):
        faults.append((slot.span(4), [int(last) - 1], f"{what} does not live long enough"))
missed = [what for span, values, what in faults[:: int(every)] if not any(caught(span, v) for v in values)]
print("\n".join(missed))
print(f"{len(missed)} of {len(faults[:: int(every)])} faults were missed")
if missed or len(faults) < 100:
    harness.fail(f"{len(missed)} of {len(faults)} faults were missed")
