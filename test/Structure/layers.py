#!/usr/bin/env python3
# ===- layers.py - Check of the layers of the sources ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""layers.py [--root=DIR] [--table=FILE.md]: checks the sources against the table of layers.

A file may include headers of its own layer and of the layers in its row, and only some
layers may include LLVM. The namespaces support, abi and runtime may be opened only by the
files of these layers, which may not open any other namespace. Prints each violation as one
line; the exit code is 1 if there are any.

    --table=FILE.md   also compares the table with the one in a document"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUFFIXES = (".h", ".cpp", ".td")

# Each layer and the layers that it may include, besides itself. A layer follows all layers that
# it may include.
LAYERS = {
    "support": [],
    "abi": ["support"],
    "runtime": ["support", "abi"],
    "dialect": ["support", "abi"],
    "interface": ["support", "abi", "dialect"],
    "transforms": ["support", "abi", "dialect", "interface"],
    "planner": ["support"],
    "schedule": ["support", "abi", "dialect", "interface", "transforms", "planner"],
    "target": ["support", "abi", "dialect", "interface"],
    "import": ["support", "dialect"],
    "report": ["support", "abi", "planner"],
    "compiler": ["support", "abi", "dialect", "interface", "transforms", "planner", "schedule", "target", "import", "report"],
    "interpreter": ["support", "abi", "runtime", "dialect"],
}
# The folders of each layer, under lib and include/kiln or from the root.
FOLDERS = {
    "Support": "support", "Abi": "abi", "Runtime": "runtime", "tools/kiln-diff": "runtime",
    "Dialect/Kiln/IR": "dialect", "Dialect/KilnRT/IR": "dialect", "Dialect/Kiln/Transforms": "transforms",
    "Planner": "planner", "Conversion": "schedule", "Target": "target", "Target/Interface": "interface", "Import": "import", "Report": "report",
    "Compiler": "compiler", "Interpreter": "interpreter",
}  # fmt: skip
# These layers are linked into executables.
WITHOUT_LLVM = ("support", "abi", "runtime")
# Layers with their own namespace; the others use kiln and namespaces inside it.
NAMESPACES = {"support": "kiln::support", "abi": "kiln::abi", "runtime": "kiln::runtime"}
# Vocabulary.h imports types of kiln::support into kiln.
OPENS_KILN = "include/kiln/Support/Vocabulary.h"
# Remaining violations by file: the layers that the file should not include.
REMAINING = {}


def code_of(path):
    """Returns lines without comments, with their numbers."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield number, re.sub(r"//.*", "", line)


def files(root):
    for folder in ("lib", "include", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path


def layer_of(name):
    name = re.sub(r"^(lib|include/kiln)/", "", name)
    for folder in sorted(FOLDERS, key=len, reverse=True):
        if name.startswith(folder + "/"):
            return FOLDERS[folder]
    return None


def included_layer(root, path, header):
    """Returns the layer of an included header, "llvm", or None."""
    if header.startswith("kiln/"):
        return layer_of("include/" + header)
    if re.match(r"(llvm|mlir)(-c)?/", header):
        return "llvm"
    beside = (path.parent / header).resolve()
    if beside.exists():
        return layer_of(str(beside.relative_to(root.resolve())))
    # Resolved through an include directory: the header in lib with this name.
    layers = {layer_of(str(other.relative_to(root))) for other in sorted((root / "lib").rglob(header))}
    return None if layer_of(str(path.relative_to(root))) in layers else min(layers, key=str, default=None)


def includes_against_layers(root):
    """Yields (file, line, layer, included layer)."""
    for path in files(root):
        name = str(path.relative_to(root))
        layer = layer_of(name)
        if not layer:
            # Tools other than kiln-diff may include everything.
            if not name.startswith("tools/"):
                yield name, 1, "no layer", "anything"
            continue
        for number, line in code_of(path):
            match = re.match(r'\s*#\s*include ["<]([^">]+)[">]', line)
            other = included_layer(root, path, match[1]) if match else None
            allowed = layer not in WITHOUT_LLVM if other == "llvm" else other in LAYERS[layer] + [layer, None]
            if not allowed:
                yield name, number, layer, other


def bad_includes(root):
    found = set()
    for name, number, layer, other in includes_against_layers(root):
        found.add((name, other))
        if other not in REMAINING.get(name, []):
            yield f"{name}: belongs to no layer of layers.py" if layer == "no layer" else f"{name}:{number}: {layer} may not include {other}"
    for name, others in REMAINING.items():
        for other in others:
            if (root / name).exists() and (name, other) not in found:
                yield f"{name}: no longer includes {other}; remove it from REMAINING of layers.py"


def bad_namespaces(root):
    for path in files(root):
        name = str(path.relative_to(root))
        layer = layer_of(name)
        if path.suffix == ".td" or name == OPENS_KILN or not layer:
            continue
        own = NAMESPACES.get(layer)
        around = []  # The open namespaces.
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("} // namespace") and around:
                around.pop()
            match = re.match(r"(?:inline )?namespace\b ?([\w:]*) ?\{", line)
            if not match:
                continue
            opened = "::".join([*filter(None, around), *filter(None, [match[1]])])
            if not around and own and opened and not (opened + "::").startswith(own + "::"):
                yield f"{name}:{number}: {layer} opens {opened}, expected {own}"
            if not own and any((opened + "::").startswith(other + "::") for other in NAMESPACES.values()):
                yield f"{name}:{number}: {layer} opens {opened}, which belongs to another layer"
            if "}" not in line:
                around.append(match[1])


def bad_table(document):
    """Compares the rows `| layer | folders | may include | ...` of a document with LAYERS."""
    rows = {}
    for line in document.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) > 3 and cells[0] in LAYERS:
            rows[cells[0]] = cells
    for layer, allowed in LAYERS.items():
        if layer not in rows:
            yield f"{document.name}: the table of layers lacks {layer}"
            continue
        said = sorted(re.findall(r"\w+", rows[layer][2])) if rows[layer][2] != "-" else []
        if said != sorted(allowed):
            yield f"{document.name}: {layer} may include {', '.join(allowed) or 'no layer'}, the table has {rows[layer][2]}"
        folders = sorted(re.findall(r"`([^`]+)`", rows[layer][1]))
        if folders != sorted(folder for folder, owner in FOLDERS.items() if owner == layer):
            yield f"{document.name}: the folders of {layer} are not those of layers.py"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--table", type=pathlib.Path)
    arguments = parser.parse_args()
    found = [*bad_includes(arguments.root), *bad_namespaces(arguments.root)]
    if arguments.table:
        found += bad_table(arguments.table)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
