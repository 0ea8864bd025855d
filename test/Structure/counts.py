#!/usr/bin/env python3
# ===- counts.py - Counts of layering and encapsulation violations -----------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""counts.py [--root=DIR] [--list=NAME]: counts the places in the sources that use facts
which a single type or table should own, and includes that violate the layers.

    --list=NAME   also prints the places that NAME counts

A place is a line or a file of lib/, include/ and tools/; comments are ignored."""

import argparse
import pathlib
import re
import sys

import layers

# Files that may mention the element types of bf16: the table, conversions, and code that emits
# or calls kernels of one type.
EMITTERS = re.compile(
    r"lib/(Support|Target/(Cpu|Gpu)|Runtime/(Cuda|Engine/(LowPrecisionGemm|TileEpilogue|GemmTiles)))|include/kiln/Support"
    r"|ElementTypes\.cpp|AttentionLibrary\.cpp"
)


def lines_with(root, pattern, but=None):
    pattern = re.compile(pattern)
    for path in layers.files(root):
        name = str(path.relative_to(root))
        if but and re.search(but, name):
            continue
        for number, line in layers.code_of(path):
            if pattern.search(line):
                yield f"{name}:{number}"


def files_with(root, pattern, but=None):
    return sorted({place.split(":")[0] for place in lines_with(root, pattern, but)})


def against_layers(root):
    for name, number, layer, other in layers.includes_against_layers(root):
        yield f"{name}:{number}: {layer} includes {other}"


COUNTS = {
    "width": ("lines with a bit width / 8 outside the table", lambda r: lines_with(r, r"BitWidth\(\)\s*/\s*8|BitWidth\(\) */ *CHAR_BIT|[bB]itsOf\([^)]*\)\s*/\s*8", "Support")),
    "isGpu": ("lines that ask isGpu, or for a target by name", lambda r: lines_with(r, r"\bisGpu\(|\bonGpu\b|TargetKind::", "Runtime")),
    "multi_launch": ("files that name multi_launch", lambda r: files_with(r, r"(?i)multi_?launch")),
    "host": ("lines that ask for host outside of types", lambda r: lines_with(r, r"isOnHost|getHost\(\)|hasAttr\(\"host\"\)|\.host\b")),
    "kinds": ("files that switch over command kinds", lambda r: files_with(r, r"case Command::Kind::|case CommandKind::|Case\(\[&\]\((rt::)?(Launch|Gemm|Fill|Copy)Op|case ScheduledCommand::Kind")),
    "bf16": ("lines that test for bf16 outside table and emitters", lambda r: lines_with(r, r"isBF16\(\)|[=!]= *ElementType::BF16|case ElementType::BF16", EMITTERS)),
    "includes": ("includes against the layers", against_layers),
    "namespaces": ("namespaces opened by another layer", layers.bad_namespaces),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=layers.ROOT)
    parser.add_argument("--list", choices=COUNTS, default=None)
    arguments = parser.parse_args()
    for name, (what, find) in COUNTS.items():
        found = list(find(arguments.root))
        print(f"{len(found):5}  {name:13} {what}")
        if name == arguments.list:
            print("".join(f"       {place}\n" for place in found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
