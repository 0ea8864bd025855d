# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Truncates the f32 tensors of DIR/model.safetensors to bf16, and sets torch_dtype."""

import json
import pathlib
import struct
import sys

directory = pathlib.Path(sys.argv[1])
path = directory / "model.safetensors"
raw = path.read_bytes()
(size,) = struct.unpack("<Q", raw[:8])
header = json.loads(raw[8 : 8 + size])
data = raw[8 + size :]
for name, entry in header.items():
    if name != "__metadata__":
        entry["dtype"] = "BF16"
        entry["data_offsets"] = [offset // 2 for offset in entry["data_offsets"]]
text = json.dumps(header).encode()
text += b" " * (-(8 + len(text)) % 64)
# The upper halves of little-endian f32 values are bf16 values.
halves = bytes(byte for i in range(0, len(data), 4) for byte in data[i + 2 : i + 4])
path.write_bytes(struct.pack("<Q", len(text)) + text + halves)
config = json.loads((directory / "config.json").read_text())
config["torch_dtype"] = "bfloat16"
(directory / "config.json").write_text(json.dumps(config, indent=2))
