# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the loss in the third log is the mean of those in the first two."""

import json
import sys

losses = []
for log in sys.argv[1:]:
    lines = [json.loads(line) for line in open(log)]
    losses.append(next(line["loss"] for line in lines if line.get("event") == "eval"))
first, second, whole = losses
print(f"{first} {second} {whole}")
if first == second or abs((first + second) / 2 - whole) > 1e-6 * whole:
    sys.exit("mean_of_halves.py: the losses of the halves do not average to the whole")
