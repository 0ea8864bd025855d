#!/usr/bin/env python3
# ===- english_text.py - English text from Perl manuals ----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Converts the prose of .pod manuals to a training text and a validation text.

    english_text.py DIRECTORY --train=FILE.txt --val=FILE.txt

Headings, code and lists of functions are omitted. The manuals are ordered by the
hash of their names, so that the last 5 %, which become the validation text, cover
several subjects. The same manuals always give the same texts.
"""

import argparse
import hashlib
import pathlib
import re
import sys

VALIDATION_SHARE = 0.05

# Manuals that consist mostly of names, not of sentences.
NOT_PROSE = {"perlapi", "perlintern", "perltoc", "perluniprops"}

ESCAPES = {"lt": "<", "gt": ">", "sol": "/", "verbar": "|"}


def plain(paragraph: str) -> str:
    """Removes pod markup: C<code>, I<italic>, L<text|target>, E<gt>."""
    paragraph = re.sub(r"[A-Z]<<+\s+(.*?)\s+>>+", r"\1", paragraph, flags=re.DOTALL)
    before = None
    while before != paragraph:
        before = paragraph
        paragraph = re.sub(r"L<([^<>|]*)\|[^<>]*>", r"\1", paragraph)
        paragraph = re.sub(r"[BCFILSXZ]<([^<>]*)>", r"\1", paragraph)
    return re.sub(r"E<(\w+)>", lambda match: ESCAPES.get(match[1], ""), paragraph)


def prose(manual: str) -> str:
    """Returns the paragraphs of a manual that are neither code nor commands."""
    paragraphs = (p.strip("\n") for p in re.split(r"\n[ \t]*\n", manual))
    return "".join(plain(p) + "\n\n" for p in paragraphs if p and p[0] not in " \t=")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--train", type=pathlib.Path, required=True)
    parser.add_argument("--val", type=pathlib.Path, required=True)
    options = parser.parse_args()

    manuals = [path for path in options.directory.rglob("*.pod") if path.stem not in NOT_PROSE]
    if not manuals:
        sys.exit(f"english_text.py: no .pod files under '{options.directory}'; expected Perl's manuals")
    manuals.sort(key=lambda path: hashlib.sha256(path.stem.encode()).digest())
    text = "".join(prose(path.read_text("latin-1")) for path in manuals)
    data = text.encode("ascii", "ignore")
    cut = data.rfind(b"\n\n", 0, int(len(data) * (1 - VALIDATION_SHARE))) + 2
    options.train.write_bytes(data[:cut])
    options.val.write_bytes(data[cut:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
