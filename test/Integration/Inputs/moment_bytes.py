# ===- moment_bytes.py - Bytes of 8-bit moments ------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""moment_bytes.py EXECUTABLE CHECKPOINT BYTES TABLE...: BYTES are the bytes of a number in each
state of the optimizer that is not encoded, or "dynamic8", separated by a slash. Computes from
the shapes of the trained tensors in the checkpoint which states are codes and how large all are,
and compares with the plan of the executable and with the tensors of the checkpoint. TABLE are
the names of embeddings."""

import json
import math
import pathlib
import re
import sys

import harness

LEAST, BLOCK = 4096, 256

executable, checkpoint, slots, *tables = sys.argv[1:]
checkpoint = pathlib.Path(checkpoint)
weights = next(checkpoint.glob("*model.safetensors"))
slots = slots.split("/")
expected = encoded = 0
for name, (_, shape, _) in harness.saved_tensors(weights).items():
    count = math.prod(shape)
    mayEncode = count >= LEAST and count % BLOCK == 0 and name not in tables
    for slot in slots:
        isEncoded = slot == "dynamic8" and mayEncode
        encoded += count if isEncoded else 0
        expected += count + 4 * (count // BLOCK) if isEncoded else count * (4 if slot == "dynamic8" else int(slot))
described = harness.run([executable, "--describe"]).stdout
declared = json.loads(re.search(r"declared: ({.*})", described).group(1))
if declared["optimizer"] != expected:
    harness.fail(f"the plan has {declared['optimizer']} bytes of optimizer states, expected {expected}")
saved = harness.saved_tensors(checkpoint / "optimizer.safetensors")
if sum(len(data) for _, _, data in saved.values()) != expected:
    harness.fail(f"the checkpoint has other bytes of optimizer states than {expected}")
codes = sum(math.prod(shape) for kind, shape, _ in saved.values() if kind == "I8")
if codes != encoded:
    harness.fail(f"the checkpoint has {codes} codes, expected {encoded}")
print(f"{expected} bytes, {encoded} codes")
