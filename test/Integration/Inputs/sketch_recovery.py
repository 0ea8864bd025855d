# ===- sketch_recovery.py - Large elements that a count sketch finds ----------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""sketch_recovery.py: sums matrices of two ranks, of noise and a few large elements, with the count
sketch of compression_schemes.py, with which ranks_compressed.py compares executables. At least 9 of 10 large elements
must be sent at once, although each rank has only a part of them, and all within a few steps."""

import random

import compression_schemes
import harness

ROWS, COLUMNS, FACTOR, LARGE, STEPS = 240, 32, 4, 30, 4

random.seed(7)
scheme = compression_schemes.CountSketch(FACTOR)
block = scheme.block()
planted = [b * block + random.randrange(block) for b in random.sample(range(ROWS * COLUMNS // block), LARGE)]
parts = [[[random.gauss(0, 0.01) for _ in range(COLUMNS)] for _ in range(ROWS)] for _ in range(2)]
for i in planted:
    size = random.choice((-1, 1))
    for part in parts:
        part[i // COLUMNS][i % COLUMNS] += size * random.uniform(0.3, 0.7)
state = {
    "error": [[[0.0] * COLUMNS for _ in range(ROWS)] for _ in parts],
    "signs": [[random.gauss(0, 1) for _ in range(ROWS)] for _ in range(3)],
}
exact = compression_schemes.summed(parts)
zeros = [[[0.0] * COLUMNS for _ in range(ROWS)] for _ in parts]
total, found = zeros[0], []
for step in range(STEPS):
    total = compression_schemes.summed([total, scheme.step(parts if step == 0 else zeros, state)])
    at = [(total[i // COLUMNS][i % COLUMNS], exact[i // COLUMNS][i % COLUMNS]) for i in planted]
    found.append(sum(abs(a - b) < 0.1 for a, b in at))
print(f"a sketch of {scheme.summed_elements(ROWS, COLUMNS)} elements of {ROWS * COLUMNS} finds {found} of {LARGE}")
if not (found[0] >= 0.9 * LARGE and found[-1] == LARGE):
    harness.fail("large elements are not found")
