# ===- part_kernels.py - Commands compared on equal inputs -------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""The executable for the GPU writes the inputs and results of every command
(--check-ops). The executable for the emulated GPU, whose kernels compute the CPU's
bits, repeats each command on these inputs (--check-trace). In addition, kiln-diff
trains with both executables and compares their ops."""

import re

from . import data, process, training
from .context import Outcome, Row

LINE = re.compile(
    r"^(ok|FAIL) +(\w+): (\w+), (\d+) results +within rounding +(\d+) bitwise equal(.*)$"
)
NUMBER = r"([0-9.e+-]+|inf|-?nan)"
WORST = re.compile(rf"worst {NUMBER} of {NUMBER} allowed: (.*?)(?:; \d+ wrong)?$")


def parse(table):
    """Returns figures per kind of command, the worst result, and the number of results."""
    results, same, worst, where = {}, {}, 0.0, ""
    for line in table.splitlines():
        found = LINE.match(line)
        if not found:
            continue
        _, program, kind, count, equal, rest = found.groups()
        results[kind] = results.get(kind, 0) + int(count)
        same[kind] = same.get(kind, 0) + int(equal)
        far = WORST.search(rest)
        if far and float(far.group(1)) / float(far.group(2)) > worst:
            worst = float(far.group(1)) / float(far.group(2))
            where = f"{program}: {far.group(3)}"
    values = {f"{kind}, same bits": f"{same[kind]} of {results[kind]}" for kind in results}
    values["worst share of rounding"] = worst
    return values, where, sum(results.values())


def same_inputs(context, case):
    folder = context.folder("ops", case.name)
    trace = folder / "ops.trace"
    tokens = data.tokens_for(context, case, training.steps_of(context, case))
    weights = data.weights_for(context, case)
    command = [context.bundle.executable(case, "device"), f"--check-ops={trace}"]
    written = context.run([*command, f"--data={tokens}", f"--init={weights}", "--seed=5"])
    judge = context.bundle.executable(case, "emu")
    try:
        judged = context.run([judge, f"--check-trace={trace}"], expect=(0, 1))
    finally:
        trace.unlink(missing_ok=True)
    values, where, results = parse(judged.out)
    failures = [line[6:] for line in judged.out.splitlines() if line.startswith("FAIL")]
    if not results:
        raise process.Failed(process.first_line(judged.err or judged.out))
    ok = judged.code == 0 and not failures
    note = "; ".join(" ".join(line.split()) for line in failures[:3]) or where
    return Outcome(values, ok, "every result within rounding", note, written.command)


def side_by_side(context, case):
    """Runs kiln-diff, which names the first op that differs by more than rounding."""
    steps = 2 if context.quick else 5
    tokens = data.tokens_for(context, case, training.steps_of(context, case))
    weights = data.weights_for(context, case)
    command = [context.bundle.tool("kiln-diff")]
    command += [context.bundle.executable(case, "cpu"), context.bundle.executable(case, "device")]
    command += [f"--data={tokens}", f"--init={weights}", "--tolerance=rounding"]
    done = context.run([*command, *case.run_flags(steps)], expect=(0, 1))
    lines = done.out.splitlines() or [""]
    if "error: " in done.err:
        raise process.Failed(process.first_line(done.err))
    found = [line for line in lines if line.startswith("first differing op")]
    return Outcome({}, done.code == 0, "alike", "; ".join([lines[-1], *found]), done.command)


def rows(context):
    for case in context.bundle.using("kernels"):

        def row(name, function, case=case):
            return Row(f"{case.name}: {name}", lambda: function(context, case))

        yield row("each command", same_inputs)
        if case.tolerance != "lossy":
            yield row("kiln-diff", side_by_side)
