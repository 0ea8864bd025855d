# ===- part_trace.py - Time of a step per kernel -----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""--trace measures every command with CUDA events. Commands whose names differ only in
the layer number form a group. The bandwidth of memory-bound kernels, from the bytes of
operands and results, is compared with the measured copy rate. Attention and matmuls
are rated by their operations."""

import json
import re

from . import data, process, tolerances
from .context import Outcome, Row


# The minimum operations per byte of attention kernels. All other kernels are
# far below.
ATTENTION_INTENSITY = 32


def group_of(name):
    """Replaces layer numbers: h.3.ln_1 becomes h.*.ln_1."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", name)


class Group:
    """Commands of the same name, kind and size."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind
        self.count, self.us, self.bytes, self.flops = 0, 0.0, 0, 0

    def is_attention(self):
        """Returns True for kernels with attention's number of operations per byte."""
        return self.kind == "launch" and self.flops > ATTENTION_INTENSITY * self.bytes

    def add(self, event):
        self.count += 1
        self.us += event["dur"]
        self.bytes += event["args"]["bytes"]
        self.flops += event["args"]["flops"]


def read_trace(path):
    """Returns the groups, and the microseconds from the first to the last command."""
    groups, names, first, last = {}, {}, float("inf"), 0.0
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] != "X" or event["cat"] == "program":
            continue
        first, last = min(first, event["ts"]), max(last, event["ts"] + event["dur"])
        name, size = group_of(event["name"]), (event["args"]["bytes"], event["args"]["flops"])
        key = (event["cat"], name, size)
        if key not in groups:
            # The forward and backward kernels of an op have the same name.
            names[key[:2]] = names.get(key[:2], 0) + 1
            title = name if names[key[:2]] == 1 else f"{name} ({names[key[:2]]})"
            groups[key] = Group(title, event["cat"])
        groups[key].add(event)
    return list(groups.values()), last - first


def traced(context, case):
    """Returns the groups of a traced step, its duration, and the command. The trace is
    written once for all rows."""
    path = context.work / f"{case.name}.trace.json"
    note = context.work / f"{case.name}.trace.command"
    if not path.exists():
        tokens = data.tokens_for(context, case, 8)
        command = [context.bundle.executable(case, "device"), f"--data={tokens}"]
        command += ["--steps=4", "--from-scratch", f"--trace={path}"]
        note.write_text(context.run(command).command)
    groups, span = read_trace(path)
    if not groups:
        raise process.NotRun("the trace has no times of single commands")
    return groups, span, note.read_text()


def overview(context, case):
    groups, span, command = traced(context, case)
    values = {"span, ms": span * 1e-3, "commands": sum(group.count for group in groups)}
    kinds = {}
    for group in groups:
        what = "attention" if group.is_attention() else group.kind
        kinds[what] = kinds.get(what, 0.0) + group.us * 1e-3
    for kind, milliseconds in sorted(kinds.items(), key=lambda item: -item[1]):
        values[f"{kind}, ms"] = milliseconds
    values["between commands, ms"] = span * 1e-3 - sum(kinds.values())
    products = [group for group in groups if group.kind == "gemm"]
    seconds = sum(g.us for g in products) * 1e-6
    if seconds:
        values["products, TFLOP/s"] = sum(g.flops for g in products) / seconds * 1e-12
    return Outcome(values, command=command)


def memory_bound(context, case):
    """Rates the bandwidth of all kernels that are not too short for it."""
    groups, _, command = traced(context, case)
    copy = context.results.value("rates", "copies", "copy, GB/s")
    values, slow, milliseconds = {}, [], 0.0
    for group in sorted(groups, key=lambda group: -group.us):
        if group.kind != "launch" or group.is_attention():
            continue
        each = group.us / group.count
        if each < tolerances.SHORTEST_KERNEL_US and not context.quick:
            continue
        rate = group.bytes / group.us * 1e-3  # GB/s
        values[f"{group.name}, GB/s"] = rate
        milliseconds += group.us * 1e-3
        if copy and rate < tolerances.OF_COPY * copy:
            share, spent = rate / copy, group.us * 1e-3
            slow.append(f"{group.name} {share:.2f} of a copy, {spent:.2f} ms in all")
    values["together, ms"] = milliseconds
    wanted = f"at least {tolerances.OF_COPY:g} of the copy's {copy or '?'} GB/s"
    note = "; ".join(slow) if copy else "the rates part has not run"
    return Outcome(values, context.quick or (not slow and bool(copy)), wanted, note, command)


def attention(context, case):
    groups, _, command = traced(context, case)
    forward, backward = tolerances.ATTENTION_TFLOPS
    values, slow = {}, []
    kernels = [group for group in groups if group.is_attention()]
    least = min((group.flops / group.count for group in kernels), default=0)
    for group in kernels:
        rate = group.flops / group.us * 1e-6  # TFLOP/s
        # The forward kernel has two matmuls, the backward kernel five.
        is_backward = group.flops / group.count > 1.5 * least
        title = f"{group.name} {'backward' if is_backward else 'forward'}"
        values[f"{title}, TFLOP/s"] = rate
        if rate < tolerances.OF_ATTENTION * (backward if is_backward else forward):
            slow.append(title)
    if not values:
        raise process.NotRun("the trace has no attention kernels")
    judged = case.precision == "bf16"
    wanted = f"at least {tolerances.OF_ATTENTION:g} of {forward:g} and {backward:g} TFLOP/s"
    ok = context.quick or not judged or not slow
    return Outcome(values, ok, wanted if judged else "", ", ".join(slow), command)


def rows(context):
    for case in context.bundle.using("trace"):
        for name, function in {
            "overview": overview,
            "kernels that move memory": memory_bound,
            "attention": attention,
        }.items():
            yield Row(
                f"{case.name}: {name}",
                lambda case=case, function=function: function(context, case),
                150.0,
                30.0,
            )
