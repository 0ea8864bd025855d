# ===- kept_residuals.py - Residuals in a memory plan -------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Functions that the tests of residual encodings share."""

import json

import harness

HEAD = "lm_head"


def plan(kilnc, model, work, *flags):
    """Returns the plan of a model."""
    path = work / "plan.json"
    harness.run([kilnc, model, *flags, "--emit=plan", "-o", path])
    return json.loads(path.read_text())


def kept(plan):
    """Returns the activation buffers that are live across the head and the loss."""
    head = [i for i, name in enumerate(plan["command_names"]) if name == HEAD]
    if not head:
        harness.fail(f"the plan has no command '{HEAD}'")
    return [
        buffer
        for buffer in plan["buffers"]
        if buffer["class"] == "activation" and buffer["first"] < head[0] and buffer["last"] > head[-1]
    ]
