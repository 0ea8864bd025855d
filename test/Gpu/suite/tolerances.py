# ===- tolerances.py - What may differ, and what must be reached -------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Every tolerance and target of the suite; docs/design/gpu-suite.md explains them.

A loss may differ by `loss` of its size, a gradient by `gradient` of its norm and
`floor` of the norm of all gradients together, weights likewise by `weight`.
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
    # Longer sums: 1024 keys, 2048 tokens, 50257 words.
    "fp32-large": Tolerance(loss=2e-6, gradient=2e-5, weight=1e-4, floor=5e-7),
    "bf16": Tolerance(loss=5e-4, gradient=2e-2, weight=2e-2, floor=1e-3),
    "bf16-large": Tolerance(loss=1e-3, gradient=5e-2, weight=2e-2, floor=1e-3),
    # A code of few bits that rounding moves is another number: few do, and each
    # counts. The products are estimates from the same random sketches.
    "lossy": Tolerance(loss=1e-4, gradient=2e-3, weight=1e-2, floor=1e-4),
}

# The error against f64 may be so many times PyTorch's own.
TIMES_PYTORCH = 2.0

# Free memory may change by this over steps 2 to 20.
MEMORY_CHANGE = 0

# Rates: of PyTorch compiled, of the additive floor, of the measured copy
# bandwidth, of TFLOP/s of attention (forward, backward).
TIMES_COMPILED = 1.0
OF_FLOOR = 0.60
OF_COPY = 0.85
ATTENTION_TFLOPS = (390.0, 360.0)
OF_ATTENTION = 0.50

# A step with copies to the host, of max(compute, bytes / link).
OFFLOAD_TIMES = 1.10

# Kernels shorter than this are latency, not bandwidth.
SHORTEST_KERNEL_US = 10.0

# Dense TFLOP/s by vendors' data sheets, for MFU: bf16, fp32 without tensor cores.
PEAKS = {
    "H200": {"bf16": 989.0, "fp32": 67.0},
    "H100": {"bf16": 989.0, "fp32": 67.0},
    "A100": {"bf16": 312.0, "fp32": 19.5},
}


def peak_of(gpu, precision):
    """TFLOP/s, or None for a GPU that is not in the table."""
    return next((row[precision] for name, row in PEAKS.items() if name in gpu), None)
