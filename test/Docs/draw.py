#!/usr/bin/env python3
# ===- draw.py - Draw comments, messages and commit titles for a review -------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""draw.py --seed=N [--since=COMMIT] [--root=DIR]: draws texts at random, to be judged by readers
who did not write them (docs/design/text-review.md). The same seed and tree give the same texts.

Comments are blocks of // lines. Each one is printed with the lines around it, as its readers see
it. Messages are the string literals of statements that report an error or describe an option,
with {code} for what code inserts between them. Titles are those of the commits after COMMIT."""

import argparse
import pathlib
import random
import re
import subprocess
import sys

FOLDERS = ["include", "lib", "tools", "test"]
LINES_AROUND = 4
SUFFIXES = {".c", ".cpp", ".cu", ".h", ".td"}
COMMENT = re.compile(r"^\s*//[/!]?(?!===)(.*)|^[^\"']*?\s//[/!]?<?\s(.*)$")
BOILERPLATE = re.compile(
    r"Part of kiln, under the Apache|SPDX-License|===-|^\W*$|namespace|NOLINT|clang-format"
)
MESSAGE = re.compile(
    r"\b(?:emitOpError|emitError|emitRemark|emitWarning|createStringError|fail|refuse|reject"
    r"|error|badInput|usage|desc|warn|report)\((?=[^;]*\")"
)
PIECE = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'(?:[^'\\]|\\.)'|//[^\n]*|[^\"'/]+|[/'\"]")


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path.relative_to(root), path.read_text(encoding="utf-8")


def with_code(lines, first, last):
    """Returns the comment in lines first to last as it stands in the source, marked with ">", between
    up to LINES_AROUND lines on each side, up to an empty line."""

    def around(numbers):
        shown = []
        for number in numbers:
            line = lines[number - 1]
            if not line.strip() or len(shown) == LINES_AROUND:
                break
            if "===-" not in line:
                shown.append("    | " + line)
        return shown

    comment = ["    > " + line for line in lines[first - 1 : last]]
    before = around(range(first - 1, 0, -1))[::-1]
    return "\n".join(["", *before, *comment, *around(range(last + 1, len(lines) + 1))])


def comments(name, text):
    """Yields comments as (place, text): adjacent lines that are comments, or one after code, with the
    lines around them."""
    block, first = [], 0
    lines = text.splitlines() + [""]
    for number, line in enumerate(lines, 1):
        found = COMMENT.match(line)
        words = found and (found.group(1) or found.group(2) or "").lstrip("/<! ").rstrip()
        # The titles of sections stand between two rulers.
        title = number > 1 and all("//===---" in lines[n] for n in (number - 2, number % len(lines)))
        after_code = words and not line.lstrip().startswith("//")
        if words and not title and not BOILERPLATE.search(words) and re.search(r"[A-Za-z]{3}", words):
            if not after_code:
                first = first if block else number
                block.append(words)
                continue
            if len(words.split()) > 2:
                yield f"{name}:{number}", with_code(lines, number, number)
        if block and len(" ".join(block).split()) > 2:
            yield f"{name}:{first}", with_code(lines, first, number - 1)
        block = []


def inserted(code):
    """Returns what stands for the code between two literals of a message."""
    code = re.sub(r"\s+|<<|\+(?!\+)|^[(,]|\bstd::|\bllvm::", "", code).strip(",?:").lstrip(")")
    return "{" + code + "}" if re.search(r"\w", code) else ""


def messages(name, text):
    if name.parts[0] == "test":
        return
    for found in MESSAGE.finditer(text):
        words, code, place = "", "", found.end()
        while place < len(text) and text[place] not in ";{}":
            piece = PIECE.match(text, place)
            if piece.group(1) is not None:
                words += inserted(code) or (" | " if re.search("[,:]", code) and words else "")
                words, code = words + piece.group(1), ""
            elif not piece.group(0).startswith(("//", "'")):
                end = re.search(r"[;{}]", piece.group(0))
                code += piece.group(0)[: end.start() if end else None]
                if end:
                    break
            place = piece.end()
        words = (words + inserted(code.strip().rstrip(")"))).strip()
        if len(re.sub(r"\{[^}]*\}", " ", words).split()) > 2:
            yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}", words


def titles(root, since):
    command = ["git", "-C", str(root), "log", "--no-merges", "--format=%h %s", f"{since}..HEAD"]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        yield tuple(line.split(" ", 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--since", default="HEAD~100")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--comments", type=int, default=60)
    parser.add_argument("--messages", type=int, default=40)
    parser.add_argument("--titles", type=int, default=30)
    arguments = parser.parse_args()
    files = list(sources(arguments.root))
    populations = {
        "comments": [found for name, text in files for found in comments(name, text)],
        "messages": [found for name, text in files for found in messages(name, text)],
        "titles": list(titles(arguments.root, arguments.since)) if arguments.titles else [],
    }
    draw = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")
    for kind, population in populations.items():
        count = min(getattr(arguments, kind), len(population))
        print(f"\n{kind}: {count} of {len(population)}")
        for number, (place, text) in enumerate(draw.sample(population, count), 1):
            print(f"{kind[0]}{number} {place}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
