# ===- outliers.py - Error of a matmul with an int8 weight -------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""outliers.py KILN_OPT KILN_RUN MODULE WORK: runs the program @f of MODULE, y = x w^T, with
normal x and w. Two inputs are 60 times as large in w, and two others in x. Stores w as int8
without and with two outliers, with scales of blocks and of rows. The error of y, relative to
the result of the original w, must be above LIMIT without outliers and below it with them."""

import array
import json
import math
import pathlib
import random
import struct
import subprocess
import sys

LIMIT = 1e-2
ROWS, INPUTS, OUTPUTS = 16, 128, 64
IN_WEIGHT, IN_ACTIVATIONS = (11, 70), (40, 101)

opt, run, module, work = sys.argv[1:]
work = pathlib.Path(work)
work.mkdir(parents=True, exist_ok=True)
numbers = random.Random(1)


def normal(rows, large):
    factors = [60 if i in large else 1 for i in range(INPUTS)]
    return array.array("f", (numbers.gauss(0, 1) * factors[i % INPUTS] for i in range(rows * INPUTS)))


def write(path, name, shape, values):
    text = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * len(values)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + values.tobytes())


def read(path, name):
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    begin, end = json.loads(content[8 : 8 + size])[name]["data_offsets"]
    return array.array("f", content[8 + size + begin : 8 + size + end])


write(work / "w", "w", [OUTPUTS, INPUTS], normal(OUTPUTS, IN_WEIGHT))
write(work / "x", "x", [ROWS, INPUTS], normal(ROWS, IN_ACTIVATIONS))


def result(path):
    out = work / "out"
    command = [run, path, "--entry=f", f"--init={work / 'w'}", f"--inputs={work / 'x'}", f"--dump={out}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return read(out, "y")


def norm(values):
    return math.sqrt(sum(value * value for value in values))


want = result(module)
for scales in ("block", "row"):
    for outliers in (0, 2):
        encoding = f"int8:outliers={outliers},scales={scales}"
        quantized = work / "quantized.mlir"
        subprocess.run([opt, module, f"--kiln-quantize-weights=encoding={encoding}", "-o", quantized], check=True)
        got = result(quantized)
        error = norm([a - b for a, b in zip(got, want, strict=True)]) / norm(want)
        print(f"{encoding}: error {error:.5f}")
        if (error < LIMIT) != (outliers > 0):
            sys.exit(f"{encoding}: the error is {error}, expected {'less' if outliers else 'more'} than {LIMIT}")
