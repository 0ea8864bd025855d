# ===- tensor_names.py - The tensors of a safetensors file -------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""tensor_names.py FILE: prints the name, type and shape of each tensor, sorted by name."""

import json
import pathlib
import struct
import sys

content = pathlib.Path(sys.argv[1]).read_bytes()
(size,) = struct.unpack_from("<Q", content)
for name, tensor in sorted(json.loads(content[8 : 8 + size]).items()):
    if name != "__metadata__":
        print(name, tensor["dtype"], tensor["shape"])
