# ===- description.py - The description inside an executable -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""description.py EXECUTABLE FILE.json: writes the program description that kilnc put
into an executable (docs/reference/program-format.md)."""

import json
import pathlib
import sys

import harness


def find(executable):
    """The bytes of the file, and where in them the description begins and ends."""
    content = pathlib.Path(executable).read_bytes()
    begin = content.find(b'{"arena":{"bytes":')
    if begin < 0:
        harness.fail(f"{executable} has no description")
    # One character for each byte, so that the decoder counts bytes.
    _, length = json.JSONDecoder().raw_decode(content[begin:].decode("latin-1"))
    return content, begin, begin + length


def commands(program):
    """The commands of a program of the description, along its order."""
    segments = {segment["name"]: segment["commands"] for segment in program["segments"]}
    return [command for name in program["order"] for command in segments[name]]


if __name__ == "__main__":
    content, begin, end = find(sys.argv[1])
    pathlib.Path(sys.argv[2]).write_bytes(content[begin:end])
