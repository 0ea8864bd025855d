# ===- edit_weights.py - Changes of a weight file ----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""edit_weights.py FILE EDIT...: changes a safetensors file in place. The edits are

    set:NAME:INDEX:VALUE   sets an element of an F32 tensor
    copy:NAME:NEW          adds a copy of a tensor under another name
    remove:NAME            removes a tensor
    reshape:NAME:N         declares the tensor as [N]
    metadata@OLD@NEW       replaces text in the metadata
    shards                 moves each tensor to a shard of its own, with an index"""

import json
import pathlib
import struct
import sys

path = pathlib.Path(sys.argv[1])
raw = path.read_bytes()
(size,) = struct.unpack("<Q", raw[:8])
header = json.loads(raw[8 : 8 + size])
metadata = header.pop("__metadata__", {})
tensors = {
    name: [entry["dtype"], entry["shape"], bytearray(raw[8 + size :][slice(*entry["data_offsets"])])]
    for name, entry in header.items()
}


def write(path, tensors):
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


for edit in sys.argv[2:]:
    what, *words = edit.split("@") if "@" in edit else edit.split(":")
    if what == "set":
        name, index, value = words
        tensors[name][2][4 * int(index) : 4 * int(index) + 4] = struct.pack("<f", float(value))
    elif what == "copy":
        dtype, shape, values = tensors[words[0]]
        tensors[words[1]] = [dtype, shape, bytearray(values)]
    elif what == "remove":
        del tensors[words[0]]
    elif what == "reshape":
        tensors[words[0]][1] = [int(words[1])]
    elif what == "metadata":
        metadata = {key: value.replace(*words) for key, value in metadata.items()}
    elif what == "shards":
        path.unlink()
        shards = {name: f"model-{i}.safetensors" for i, name in enumerate(tensors)}
        for name, shard in shards.items():
            write(path.parent / shard, {name: tensors[name]})
        (path.parent / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
        sys.exit()
    else:
        sys.exit(f"unknown edit {edit}")
write(path, tensors)
