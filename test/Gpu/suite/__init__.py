# ===- __init__.py - Modules of the GPU suite --------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""The modules of the GPU suite; see docs/design/gpu-suite.md. They use the standard
library only. Code that needs PyTorch is in separate programs (torch_*.py)."""
