# ===- page.py - The composition table of a page -----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Formats the table of composition in Markdown, which is between two comments of a page.
Each passing program fills the cell of every pair of its techniques; the kinds of the two
techniques determine how the program was judged."""

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
    """Returns the page's text up to `what`, its lines, and the remaining text."""
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
    """Replaces the lines and returns an error message, if any."""
    parts = split(path, what)
    if not parts:
        return f"{path} has no place for '{what}'"
    path.write_text(parts[0] + "\n".join(lines) + "\n" + parts[2])
    return None


class Table:
    """The table of passing programs, which are sets of techniques, and of the techniques
    that have no effect on this model."""

    def __init__(self, model, programs, idle):
        self.model, self.cells = model, {}
        for one, other in itertools.combinations_with_replacement(NAMED, 2):
            if one != other and exclude(one, other):
                self.cells[one, other] = APART
            elif any({one, other} <= program for program in programs):
                nothing = one in idle or other in idle
                self.cells[one, other] = NO_EFFECT if nothing else verdict(one, other)

    def untried(self):
        """Returns an error if pairs are missing although all were expected; the planner may
        have omitted lossy techniques."""
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
        """Updates the page and returns an error message, if any."""
        return replace(path, TECHNIQUES, explained()) or replace(
            path, f"table {self.model}", list(self.lines())
        )

    def compare(self, path):
        """Checks that the page has every cell that these programs fill, and only existing
        techniques."""
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
