#!/usr/bin/env python3
# ===- english_text.py - English text from Perl's manuals ---------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Collects the prose of .pod manuals into one text and splits off its end.

    english_text.py DIRECTORY --train=FILE.txt --val=FILE.txt

Headings, code and lists of functions are left out. The manuals are put into an
order of their own (by the hash of their names), so that the last 5 %, which
become the validation text, are not about one subject. The same manuals give the
same text everywhere.
"""

import argparse
import hashlib
import pathlib
import re
import sys

VALIDATION_SHARE = 0.05

# Tables of contents and of functions: mostly names.
NOT_PROSE = {"perlapi", "perlintern", "perltoc", "perluniprops"}

ESCAPES = {"lt": "<", "gt": ">", "sol": "/", "verbar": "|"}


def plain(paragraph: str) -> str:
    """Takes pod's markup away: C<code>, I<italic>, L<text|target>, E<gt>."""
    paragraph = re.sub(r"[A-Z]<<+\s+(.*?)\s+>>+", r"\1", paragraph, flags=re.DOTALL)
    before = None
    while before != paragraph:
        before = paragraph
        paragraph = re.sub(r"L<([^<>|]*)\|[^<>]*>", r"\1", paragraph)
        paragraph = re.sub(r"[BCFILSXZ]<([^<>]*)>", r"\1", paragraph)
    return re.sub(r"E<(\w+)>", lambda match: ESCAPES.get(match[1], ""), paragraph)


def prose(manual: str) -> str:
    """The paragraphs of a manual that are neither code nor commands."""
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
