# ===- __init__.py - The parts of the GPU suite ------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""The parts of the GPU suite: see docs/design/gpu-suite.md. Standard library only; what
needs PyTorch is in programs of their own (torch_*.py)."""
