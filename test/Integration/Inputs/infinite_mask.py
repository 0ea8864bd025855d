# ===- infinite_mask.py - Weights with a mask of -inf --------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""infinite_mask.py FROM TO NAME: copies a safetensors file and sets the second half of the
f32 tensor NAME to -inf."""

import json
import struct
import sys

source, target, name = sys.argv[1:]
data = bytearray(open(source, "rb").read())
(length,) = struct.unpack("<Q", data[:8])
begin, end = json.loads(data[8 : 8 + length])[name]["data_offsets"]
count = (end - begin) // 8
struct.pack_into(f"<{count}f", data, 8 + length + begin + 4 * count, *[float("-inf")] * count)
open(target, "wb").write(data)
