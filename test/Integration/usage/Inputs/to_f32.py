# ===- to_f32.py - Changes the type of a tensor in a safetensors file --------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""to_f32.py FROM TENSOR TO: copies a safetensors file and declares an I32 tensor as F32."""

import pathlib
import sys

content = pathlib.Path(sys.argv[1]).read_bytes()
place = content.index(b"I32", content.index(f'"{sys.argv[2]}":'.encode()))
pathlib.Path(sys.argv[3]).write_bytes(content[:place] + b"F32" + content[place + 3 :])
