"""Writes a safetensors file: write_safetensors.py FILE NAME:TYPE:SHAPE:VALUES...

SHAPE is "2x3", or empty for a scalar; VALUES are separated by commas.
"""

import json
import struct
import sys
from pathlib import Path

FORMATS = {"F32": "f", "F64": "d", "I32": "i", "I64": "q"}

header, data = {}, b""
for argument in sys.argv[2:]:
    name, dtype, shape, values = argument.rsplit(":", 3)
    number = float if dtype.startswith("F") else int
    numbers = [number(value) for value in values.split(",") if value]
    content = struct.pack(f"<{len(numbers)}{FORMATS[dtype]}", *numbers)
    header[name] = {
        "dtype": dtype,
        "shape": [int(extent) for extent in shape.split("x") if extent],
        "data_offsets": [len(data), len(data) + len(content)],
    }
    data += content
text = json.dumps(header).encode()
Path(sys.argv[1]).write_bytes(struct.pack("<Q", len(text)) + text + data)
