# ===- part_correctness.py - Training on the GPU compared with the CPU -------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Each model has up to three rows: the GPU compared with the CPU, graph launches compared
with individual commands, and the error relative to f64 compared with PyTorch's error."""

import math

from . import data, tolerances, training
from .context import Outcome, Row


def largest(pairs):
    """Returns the largest relative difference of pairs of numbers."""
    worst = 0.0
    for a, b in pairs:
        difference = abs(a - b) / max(abs(b), 1e-300)
        worst = max(worst, difference if math.isfinite(difference) else math.inf)
    return worst


def shares(tensors, relative, floor, index=0):
    """Returns (error / tolerance, name) of the worst tensor."""
    norm = data.total(tensors, lambda tensor: tensor["norm"])
    worst, name = 0.0, ""
    for tensor in tensors:
        allowed = relative * data.number(tensor["norm"]) + floor * norm
        share = data.number(tensor["errors"][index]) / max(allowed, 1e-300)
        share = share if math.isfinite(share) else math.inf
        if share >= worst:
            worst, name = share, tensor["tensor"]
    return worst, name


def relative_error(tensors, index=0):
    """Returns the relative error of all tensors as one vector."""
    norm = data.total(tensors, lambda tensor: tensor["norm"])
    return data.total(tensors, lambda tensor: tensor["errors"][index]) / max(norm, 1e-300)


def against_cpu(context, case):
    tolerance = tolerances.TOLERANCES[case.tolerance]
    context.bundle.executable(case, "device")  # Raises NotRun if it is missing.
    cpu = training.train(context, case, "cpu")
    gpu = training.train(context, case, "device")
    values, bad = {}, []

    def judge(what, share, where=""):
        if share > 1:
            bad.append(f"{what} {where} at {share:.2g} times the tolerance".replace("  ", " "))

    if len(gpu.losses) != len(cpu.losses):
        bad.append(f"{len(gpu.losses)} steps instead of {len(cpu.losses)}")
    values["loss"] = largest(zip(gpu.losses, cpu.losses))
    judge("loss", values["loss"] / tolerance.loss)
    if cpu.norms:
        values["grad_norm"] = largest(zip(gpu.norms, cpu.norms))
        judge("gradient norm", values["grad_norm"] / tolerance.gradient)
    gradients = data.tensor_errors(context, cpu.gradients, gpu.gradients)
    values["gradients"] = relative_error(gradients)
    judge("gradient", *shares(gradients, tolerance.gradient, tolerance.floor))
    weights = data.tensor_errors(context, cpu.weights, gpu.weights)
    values["weights"] = relative_error(weights)
    judge("weight", *shares(weights, tolerance.weight, tolerance.floor))
    values["same_bits"] = all(t["same"][0] for t in gradients + weights)
    wanted = f"loss {tolerance.loss:g}, gradients {tolerance.gradient:g}"
    wanted += f", weights {tolerance.weight:g}"
    note = "; ".join(bad) or f"{len(gradients)} gradients, {len(weights)} weights"
    return Outcome(values, not bad, wanted, note, gpu.command)


def command_by_command(context, case):
    """Checks that --sync-ops does not change any bit."""
    context.need_gpu()
    graph = training.train(context, case, "device")
    single = training.train(context, case, "device", "--sync-ops", name="single")
    tensors = data.tensor_errors(context, graph.gradients, single.gradients)
    tensors += data.tensor_errors(context, graph.weights, single.weights)
    different = [tensor["tensor"] for tensor in tensors if not tensor["same"][0]]
    same = graph.losses == single.losses and not different
    note = "" if same else f"{len(different)} tensors differ: {', '.join(different[:3])}"
    return Outcome({"tensors": len(tensors)}, same, "the same bits", note, single.command)


def against_f64(context, case):
    """Compares the errors relative to f64 of losses, gradients and weights, each as one
    vector, with those of PyTorch. The ratio uses a lower limit for PyTorch's error that
    is derived from the spacing of the type."""
    context.need_torch()
    exact = training.train(context, training.exact_case(context, case), "cpu64")
    gpu = training.train(context, case, "device")
    torch = training.train_pytorch(context, case)
    spacing = 2.0**-23 if case.precision == "fp32" else 2.0**-8
    values, bad = {}, []

    def judge(what, own, other):
        ratio = own / max(other, spacing / 16)
        values[what] = own
        values[f"{what}, PyTorch"] = other
        if not ratio <= tolerances.TIMES_PYTORCH:
            bad.append(f"{what} {ratio:.2g} times PyTorch's")

    judge(
        "loss",
        largest(zip(gpu.losses, exact.losses)),
        largest(zip(torch.losses, exact.losses)),
    )
    for what, files in {
        "gradients": (exact.gradients, gpu.gradients, torch.gradients),
        "weights": (exact.weights, gpu.weights, torch.weights),
    }.items():
        tensors = data.tensor_errors(context, *files)
        judge(what, relative_error(tensors, 0), relative_error(tensors, 1))
    wanted = f"at most {tolerances.TIMES_PYTORCH:g} times PyTorch's error"
    return Outcome(values, not bad, wanted, "; ".join(bad), torch.command)


def rows(context):
    for case in context.bundle.using("correctness"):
        limit = 400.0 if case.large else 120.0
        least = 60.0 if case.large else 10.0

        def row(name, function, case=case, limit=limit, least=least):
            return Row(f"{case.name}: {name}", lambda: function(context, case), limit, least)

        yield row("GPU and cpu", against_cpu)
        if not case.cudnn:
            yield row("graph and single commands", command_by_command)
        if case.twin and training.exact_case(context, case):
            yield row("error against f64", against_f64)
