#!/usr/bin/env python3
# ===- reference_docs.py - The generated pages of the documentation -----------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Generates docs/reference from the .td files, or checks that it is current.

    reference_docs.py --tblgen=mlir-tblgen --include=DIRECTORY [--check]

The target `kiln-docs` and the test `docs-reference` run this.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Page: arguments of mlir-tblgen, and what to run it on.
PAGES = {
    "kiln-dialect.md": (["-gen-dialect-doc", "-dialect=kiln"], ["Dialect/Kiln/IR/KilnOps.td"]),
    "kiln-library-ops.md": (["-gen-op-doc"], ["Dialect/Kiln/IR/KilnLibraryOps.td"]),
    "kilnrt-dialect.md": (["-gen-dialect-doc", "-dialect=kilnrt"], ["Dialect/KilnRT/IR/KilnRTOps.td"]),
    "interfaces.md": (["-gen-op-interface-docs"], ["Dialect/Kiln/IR/KilnInterfaces.td"]),
    "passes.md": (
        ["-gen-pass-doc"],
        [
            "Dialect/Kiln/Transforms/Passes.td",
            "Conversion/KilnToKilnRT/Passes.td",
            "Target/Common/Passes.td",
            "Compiler/Passes.td",
        ],
    ),
}


def generate(page: str, tblgen: str, includes: list[str]) -> str:
    arguments, sources = PAGES[page]
    text = ""
    for source in sources:
        command = [tblgen, *arguments, *(f"-I{directory}" for directory in includes)]
        command += [f"-I{ROOT / 'include'}", str(ROOT / "include/kiln" / source)]
        text += subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    # Neither trailing blanks, nor the mark of another generator's table of contents.
    lines = (line.rstrip() for line in text.replace("[TOC]\n\n", "").splitlines())
    return "\n".join(lines).rstrip("\n") + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tblgen", default="mlir-tblgen-22")
    parser.add_argument("--include", action="append", default=[], help="where the .td files of MLIR are")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()

    stale = []
    for page in PAGES:
        path = ROOT / "docs/reference" / page
        text = generate(page, options.tblgen, options.include)
        if options.check:
            if not path.exists() or path.read_text() != text:
                stale.append(str(path.relative_to(ROOT)))
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if stale:
        sys.exit(f"stale: {', '.join(stale)}; run 'ninja -C build kiln-docs' and commit the result")
    return 0


if __name__ == "__main__":
    sys.exit(main())
