# ===- part_bench.py - Training steps compared with PyTorch ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Measures tokens per second, MFU, and the rate relative to the additive floor. kiln is
compared with eager and compiled PyTorch, which take turns with it in the same run."""

from . import data, gpt2, process, sides, tolerances
from .context import Outcome, Row

# Pairs of a name and flags of torch_steps.py.
JUDGED = "PyTorch compiled"
PEERS = {
    "fp32": (
        (JUDGED, ("--precision=fp32", "--compile")),
        ("PyTorch eager", ("--precision=fp32",)),
        ("PyTorch compiled, TF32", ("--precision=tf32", "--compile")),
    ),
    "bf16": (
        (JUDGED, ("--precision=bf16", "--compile")),
        ("PyTorch eager", ("--precision=bf16",)),
        ("PyTorch compiled, padded", ("--precision=bf16", "--compile", "--padded")),
    ),
}
MEASURED = "rates"


def floor_of(context, case):
    """Returns the floor in milliseconds, or None if the rates part has not run."""
    rate = context.results.value
    tflops = rate(MEASURED, f"products, {case.precision}", "large, TFLOP/s")
    gbs = rate(MEASURED, "copies", "copy, GB/s")
    # Without PyTorch's rate: half that of matmuls, as public kernels have for
    # d=64.
    attention = rate(MEASURED, f"PyTorch's attention, {case.precision}", "both, TFLOP/s")
    if not tflops or not gbs:
        return None
    element = 2 if case.precision == "bf16" else 4
    config = context.bundle.config(case)
    parts = gpt2.floor_parts(
        config, case.batch, case.length, element, tflops, attention or tflops / 2, gbs
    )
    return sum(parts.values())


def describe(context, case, milliseconds):
    tokens = case.batch * case.length
    rate = tokens / milliseconds * 1e3
    values = {"step, ms": milliseconds, "tokens/s": rate}
    flops = gpt2.flops_per_token(context.bundle.config(case), case.length)
    gpu = context.results.value("machine", "machine", "gpu") or ""
    peak = tolerances.peak_of(gpu, case.precision)
    if peak:
        values["MFU, %"] = 100 * rate * flops / (peak * 1e12)
    floor = floor_of(context, case)
    if floor:
        values["floor, ms"] = floor
        values["of the floor's rate"] = floor / milliseconds
    return values


def start_kiln(context, case):
    tokens = data.tokens_for(context, case, 8)
    flags = [f"--lr={case.rate!r}", "--seed=5"]
    return sides.Kiln(context, context.bundle.executable(case, "device"), tokens, flags)


def judge(values, times=None):
    """Returns (missed targets, description of all targets)."""
    missed = []
    wanted = f"{tolerances.OF_FLOOR:g} of the floor's rate"
    share = values.get("of the floor's rate")
    if share is None:
        missed.append("no floor: the rates part has not run")
    elif share < tolerances.OF_FLOOR:
        missed.append(f"{share:.2f} of the floor's rate")
    if times is not None:
        wanted += f", {tolerances.TIMES_COMPILED:g} times PyTorch's"
        if times < tolerances.TIMES_COMPILED:
            missed.append(f"{times:.2f} times PyTorch's rate")
    return missed, f"at least {wanted}"


def alone(context, case):
    kiln = start_kiln(context, case)
    try:
        sides.take_turns([kiln], 1 if context.quick else 3, 2 if context.quick else 5)
    finally:
        kiln.close()
    values = describe(context, case, kiln.milliseconds())
    missed, wanted = judge(values)
    note = "; ".join([*missed, kiln.library])
    return Outcome(values, context.quick or not missed, wanted, note, kiln.command)


def beside(context, case, title, flags):
    context.need_torch()
    kiln = start_kiln(context, case)
    running = [kiln]
    try:
        peer = sides.PyTorch(context, case, *flags)
        running.append(peer)
        few = context.quick or case.batch > 16
        sides.take_turns(running, 2 if context.quick else 4, 3 if few else 6)
    finally:
        for side in running:
            side.close()
    times = sides.ratio(kiln, peer)
    values = describe(context, case, kiln.milliseconds())
    values["PyTorch's step, ms"] = peer.milliseconds()
    values["times PyTorch's rate"] = times
    values["PyTorch's peak, GiB"] = peer.about["peak_bytes"] / 2**30
    missed, wanted = judge(values, times) if title == JUDGED else ([], "")
    about = f"PyTorch {peer.about['torch']}, {peer.about['attention']}"
    note = "; ".join([*missed, kiln.library, about])
    command = f"{kiln.command} beside {peer.command}"
    return Outcome(values, context.quick or not missed, wanted, note, command)


def rows(context):
    """Yields the comparisons that are judged, then other ones, then kiln alone."""
    cases = sorted(context.bundle.using("bench"), key=lambda case: case.precision != "bf16")
    for number in range(3):
        for case in cases:
            title, flags = PEERS[case.precision][number]
            seldom = case.batch < 16 or case.cudnn or (case.batch > 16 and number == 2)
            if seldom and title != JUDGED:
                continue
            yield Row(
                f"{case.name} beside {title}",
                lambda case=case, title=title, flags=flags: beside(context, case, title, flags),
                300.0,
                90.0,
            )
    for case in cases:
        yield Row(case.name, lambda case=case: alone(context, case), 150.0, 30.0)
