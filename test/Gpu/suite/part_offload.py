# ===- part_offload.py - Overlap of copies with computation ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compares the time of a step with copies to and from the host with max(compute,
bytes / link). Compute is a step of the same model without copies, measured in turns, or
the time of the optimizer on the host. The link time uses the bytes of each direction and
the measured rates of one direction and of both together."""

import json

from . import data, part_bench, process, sides, tolerances
from .context import Outcome, Row


def base_of(context, case):
    """Returns the benchmark of the same model and batch without offloading."""
    for other in context.bundle.using("bench"):
        same = all(
            getattr(other, key) == getattr(case, key) for key in ("model", "batch", "precision")
        )
        if same and not other.cudnn and context.bundle.has(other, "device"):
            return other
    raise process.NotRun("the bundle has no such model without copies")


def traced_once(context, case, path):
    """Returns the bytes that a step copies out and in, and milliseconds of host kernels."""
    log = context.work / "offload.jsonl"
    log.unlink(missing_ok=True)
    tokens = data.tokens_for(context, case, 8)
    command = [context.bundle.executable(case, "device"), f"--data={tokens}", "--steps=4"]
    context.run([*command, "--from-scratch", f"--log={log}", f"--trace={path}"])
    _, _, end = data.read_log(log)
    events = json.loads(path.read_text())["traceEvents"]
    host = sum(event["dur"] for event in events if event.get("cat") == "host") * 1e-3
    return end["copied_out_bytes_per_step"], end["copied_in_bytes_per_step"], host


def overlap(context, case):
    base = base_of(context, case)
    out, back, host = traced_once(context, case, context.work / f"{case.name}.trace.json")
    offloaded = part_bench.start_kiln(context, case)
    running = [offloaded]
    try:
        plain = part_bench.start_kiln(context, base)
        running.append(plain)
        sides.take_turns(running, 1 if context.quick else 4, 2 if context.quick else 6)
    finally:
        for side in running:
            side.close()
    rate = context.results.value
    both = rate("rates", "copies", "link, both, GB/s")
    one_way = {
        "out": rate("rates", "copies", "link, out, GB/s"),
        "in": rate("rates", "copies", "link, in, GB/s"),
    }
    values = {
        "step, ms": offloaded.milliseconds(),
        "without copies, ms": plain.milliseconds(),
        "copied out, MB": out / 1e6,
        "copied in, MB": back / 1e6,
        "host, ms": host,
    }
    wanted = f"within {100 * tolerances.OFFLOAD_TIMES - 100:.0f} % of max(compute, bytes / link)"
    if not both:
        note = "the rates part has not run"
        return Outcome(values, context.quick, wanted, note, offloaded.command)
    # The lower bound of each direction alone, and of both at their combined
    # rate.
    link = max(
        out / one_way["out"] * 1e-6, back / one_way["in"] * 1e-6, (out + back) / both * 1e-6
    )
    least = max(plain.milliseconds(), link, host)
    values["bytes / link, ms"] = link
    values["times the least"] = offloaded.milliseconds() / least
    ok = context.quick or values["times the least"] <= tolerances.OFFLOAD_TIMES
    return Outcome(values, ok, wanted, "", offloaded.command)


def rows(context):
    for case in context.bundle.using("offload"):
        yield Row(case.name, lambda case=case: overlap(context, case), 240.0, 60.0)
