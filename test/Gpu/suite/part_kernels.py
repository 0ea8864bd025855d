# ===- part_kernels.py - Every command against the cpu, on the same inputs ---=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""The GPU writes what each command of each program computed (--check-ops), and the
executable for the emulated GPU, whose kernels have the cpu's bits, repeats each of
them on the bytes that the GPU read (--check-trace). And kiln-diff trains both side by
side."""

import re

from . import data, process, training
from .context import Outcome, Row

LINE = re.compile(
    r"^(ok|FAIL) +(\w+): (\w+), (\d+) results +within rounding +(\d+) bitwise equal(.*)$"
)
NUMBER = r"([0-9.e+-]+|inf|-?nan)"
WORST = re.compile(rf"worst {NUMBER} of {NUMBER} allowed: (.*?)(?:; \d+ wrong)?$")


def parse(table):
    """Figures over all programs by kind of command, and the worst result of all."""
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
    """kiln-diff names the first op that differs by more than rounding."""
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
    found = [line for line in lines if line.startswith("first op to differ")]
    return Outcome({}, done.code == 0, "alike", "; ".join([lines[-1], *found]), done.command)


def rows(context):
    for case in context.bundle.using("kernels"):

        def row(name, function, case=case):
            return Row(f"{case.name}: {name}", lambda: function(context, case))

        yield row("each command", same_inputs)
        if case.tolerance != "lossy":
            yield row("kiln-diff", side_by_side)
