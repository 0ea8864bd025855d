# ===- page.py - The table of a page ------------------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""The table of composition in Markdown, between two comments of a page. A program
that passed makes a cell of each pair of techniques in it; what kind of techniques
they are says how it was judged."""

import itertools

from techniques import ALL, NAMED, exclude

SAME_BITS, ROUNDING, INTERPRETED, NO_EFFECT, APART, UNTRIED = "=", "≈", "✓", "0", "–", " "
TECHNIQUES = "techniques"


def verdict(one, other):
    kinds = {NAMED[one].kind, NAMED[other].kind}
    if "exact" in kinds:
        return SAME_BITS
    return ROUNDING if "reordering" in kinds else INTERPRETED


def explained():
    lines = ["| technique | kind | flags of `kilnc` |", "| --- | --- | --- |"]
    return lines + [f"| {each.name} | {each.kind} | {each.flags} |" for each in ALL]


def split(path, what):
    """The page's text up to `what`, its lines, and the text behind it."""
    text = path.read_text()
    begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        return None
    before, rest = text.split(begin)
    inside, behind = rest.split(end)
    return before + begin, inside.splitlines(), end + behind


def between(path, what):
    parts = split(path, what)
    return parts and parts[1]


def replace(path, what, lines):
    """Returns what is wrong."""
    parts = split(path, what)
    if not parts:
        return f"{path} has no place for '{what}'"
    path.write_text(parts[0] + "\n".join(lines) + "\n" + parts[2])
    return None


class Table:
    """Of programs that passed, each a set of techniques, and of the techniques that
    do nothing to this model."""

    def __init__(self, model, programs, idle):
        self.model, self.cells = model, {}
        for one, other in itertools.combinations_with_replacement(NAMED, 2):
            if one != other and exclude(one, other):
                self.cells[one, other] = APART
            elif any({one, other} <= program for program in programs):
                nothing = one in idle or other in idle
                self.cells[one, other] = NO_EFFECT if nothing else verdict(one, other)

    def untried(self):
        """What is wrong if every pair should be there: the planner may have left out
        what is lossy."""
        every = itertools.combinations_with_replacement(NAMED, 2)
        missing = [" and ".join(pair) for pair in every if pair not in self.cells]
        return f"no program has {', '.join(missing)}" if missing else None

    def lines(self):
        names = [each.name for each in ALL]
        yield "| | " + " | ".join(names) + " |"
        yield "| --- |" + " :-: |" * len(names)
        for row, name in enumerate(names):
            cells = [self.cells.get((other, name), UNTRIED) for other in names[: row + 1]]
            yield f"| **{name}** | " + " | ".join(cells + [""] * (len(names) - row - 1)) + " |"

    def write(self, path):
        """Returns what is wrong."""
        return replace(path, TECHNIQUES, explained()) or replace(
            path, f"table {self.model}", list(self.lines())
        )

    def compare(self, path):
        """The page must have every cell that these programs made, and only techniques
        that exist."""
        written = between(path, f"table {self.model}")
        if not written or between(path, TECHNIQUES) != explained():
            return f"{path} has no table of {self.model}, or an old one of techniques"
        names = [each.name for each in ALL]
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in written]
        if rows[0][1:] != names or [row[0].strip("*") for row in rows[2:]] != names:
            return f"the table in {path} is not of {', '.join(names)}"
        for (one, other), found in self.cells.items():
            cell = rows[2 + names.index(other)][1 + names.index(one)]
            if cell != found:
                return f"{path} says '{cell}' of {one} and {other}, this run '{found}'"
        print(f"{len(self.cells)} cells are as in {path}")
        return None
