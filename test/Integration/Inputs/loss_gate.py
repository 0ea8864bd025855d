# ===- loss_gate.py - Limit of the loss after quantization -------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""loss_gate.py PRINTED TRAINED LOADED PERCENT: checks the losses that kilnc --quantize PRINTED:
that before is the last one of the log TRAINED, that after is that of the log LOADED of an
executable that started from the quantized weights, and that they differ by at most PERCENT."""

import pathlib
import re
import sys

import harness

printed, trained, loaded, percent = sys.argv[1:]
line = re.search(r"loss: ([\d.]+) before, ([\d.]+) after, ([+-][\d.]+) %, mean", pathlib.Path(printed).read_text())
before, after, change = map(float, line.groups())
for loss, log in ((before, trained), (after, loaded)):
    logged = harness.events(log, "eval")[-1]["loss"]
    # Executables with other optimizers may round differently.
    if abs(loss - logged) > 2e-6 * logged:
        harness.fail(f"{line[0]}, but {log} has {logged}")
if abs(change - 100 * (after - before) / before) > 2e-4:
    harness.fail(f"{line[0]}: the change is not that of the losses")
print(line[0])
if abs(change) > float(percent):
    harness.fail(f"the loss changes by {change} %, at most {percent} % is allowed")
