# ===- plant_infinity.py - Makes an element of a weight infinite -------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""plant_infinity.py FILE TENSOR ELEMENT: makes an element of an F32 tensor infinite."""

import json
import pathlib
import struct
import sys

path, tensor, element = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
content = bytearray(path.read_bytes())
(size,) = struct.unpack_from("<Q", content)
begin = json.loads(content[8 : 8 + size])[tensor]["data_offsets"][0]
struct.pack_into("<f", content, 8 + size + begin + 4 * element, float("inf"))
path.write_bytes(content)
