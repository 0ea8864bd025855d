# ===- description.py - Program description of an executable -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""description.py EXECUTABLE FILE.json: writes the program description in an executable
(docs/reference/program-format.md) to a file."""

import json
import pathlib
import sys

import harness


def find(executable):
    """Returns the bytes of the file, and the begin and end of the description in them."""
    content = pathlib.Path(executable).read_bytes()
    begin = content.find(b'{"arena":{"bytes":')
    if begin < 0:
        harness.fail(f"{executable} has no description")
    # latin-1 maps each byte to one character, so the decoder counts bytes.
    _, length = json.JSONDecoder().raw_decode(content[begin:].decode("latin-1"))
    return content, begin, begin + length


def commands(program):
    """Returns the commands of a program of the description in the order of their indexes."""
    segments = {segment["name"]: segment["commands"] for segment in program["segments"]}
    names = []
    for entry in program["order"]:
        names += [entry["forward"], entry["backward"]] if isinstance(entry, dict) else [entry]
    return [command for name in names for command in segments[name]]


if __name__ == "__main__":
    content, begin, end = find(sys.argv[1])
    pathlib.Path(sys.argv[2]).write_bytes(content[begin:end])
