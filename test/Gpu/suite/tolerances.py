# ===- tolerances.py - Tolerances and targets of the suite -------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Every tolerance and target of the suite; docs/design/gpu-suite.md explains them.

Tolerances are relative. A loss may differ by `loss` times its magnitude. A gradient may
differ by `gradient` times its norm plus `floor` times the norm of all gradients
together; weights may differ likewise with `weight`.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Tolerance:
    loss: float
    gradient: float
    weight: float
    floor: float


TOLERANCES = {
    "fp32": Tolerance(loss=2e-6, gradient=6e-6, weight=1e-4, floor=2e-7),
    # Sums are longer: 1024 keys, 2048 tokens, a vocabulary of 50257.
    "fp32-large": Tolerance(loss=2e-6, gradient=2e-5, weight=1e-4, floor=5e-7),
    "bf16": Tolerance(loss=5e-4, gradient=2e-2, weight=2e-2, floor=1e-3),
    "bf16-large": Tolerance(loss=1e-3, gradient=5e-2, weight=2e-2, floor=1e-3),
    # A rounding difference can change a quantized code by a whole step. This
    # happens to few codes, but each has a large effect. Sketched matmuls use
    # the same random sketches on both sides.
    "lossy": Tolerance(loss=1e-4, gradient=2e-3, weight=1e-2, floor=1e-4),
}

# The maximum ratio of kiln's error relative to f64 to PyTorch's error.
TIMES_PYTORCH = 2.0

# The maximum change of free memory over steps 2 to 20, in bytes.
MEMORY_CHANGE = 0

# Minimum rates, relative to compiled PyTorch, to the additive floor and to the
# measured copy bandwidth. Attention must reach the share OF_ATTENTION of
# ATTENTION_TFLOPS (forward, backward).
TIMES_COMPILED = 1.0
OF_FLOOR = 0.60
OF_COPY = 0.85
ATTENTION_TFLOPS = (390.0, 360.0)
OF_ATTENTION = 0.50

# The maximum time of a step with copies to the host, relative to max(compute,
# bytes / link).
OFFLOAD_TIMES = 1.10

# Shorter kernels are limited by latency instead of bandwidth.
SHORTEST_KERNEL_US = 10.0

# Dense TFLOP/s according to data sheets, for MFU: bf16, and fp32 without tensor
# cores.
PEAKS = {
    "H200": {"bf16": 989.0, "fp32": 67.0},
    "H100": {"bf16": 989.0, "fp32": 67.0},
    "A100": {"bf16": 312.0, "fp32": 19.5},
}


def peak_of(gpu, precision):
    """Returns TFLOP/s, or None for a GPU that is not in the table."""
    return next((row[precision] for name, row in PEAKS.items() if name in gpu), None)
