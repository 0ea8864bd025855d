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

from techniques import ALL, APPROXIMATE, NAMED, RANKS, exclude

SAME_BITS, ROUNDING, INTERPRETED, NO_EFFECT, APART, UNTRIED = "=", "≈", "✓", "0", "–", " "


def verdict(one, other):
    kinds = {NAMED[one].kind, NAMED[other].kind}
    if "exact" in kinds:
        return SAME_BITS
    # One rank computes no approximation of ranks, and no quantized residuals of a part of each layer.
    apart = {*APPROXIMATE} & {one, other} or "codes" in (one, other) and {"tp", "sequence", "dp and tp"} & {one, other}
    return ROUNDING if "reordering" in kinds and not apart else INTERPRETED


def explained(listed):
    lines = ["| technique | kind | flags of `kilnc` |", "| --- | --- | --- |"]
    return lines + [f"| {each.name} | {each.kind} | {each.flags} |" for each in listed]


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
    that have no effect on this model: all pairs of techniques of one rank, or with `ranks`
    each of them with each technique of ranks."""

    def __init__(self, model, programs, idle, ranks=False):
        self.listed, self.what = (RANKS, "ranks") if ranks else (ALL, "techniques")
        self.name = f"{self.what} {model}" if ranks else f"table {model}"
        self.rows, self.columns = [each.name for each in ALL], [each.name for each in self.listed]
        self.cells = {}
        for one, other in self.pairs():
            if one != other and exclude(one, other):
                self.cells[one, other] = APART
            elif any({one, other} <= program for program in programs):
                nothing = one in idle or other in idle
                self.cells[one, other] = NO_EFFECT if nothing else verdict(one, other)

    def pairs(self):
        """Returns the column and the row of each cell."""
        if self.columns != self.rows:
            return list(itertools.product(self.columns, self.rows))
        return list(itertools.combinations_with_replacement(self.rows, 2))

    def untried(self):
        """Returns an error if pairs are missing although all were expected; the planner may
        have omitted lossy techniques."""
        missing = [" and ".join(pair) for pair in self.pairs() if pair not in self.cells]
        return f"no program has {', '.join(missing)}" if missing else None

    def lines(self):
        yield "| | " + " | ".join(self.columns) + " |"
        yield "| --- |" + " :-: |" * len(self.columns)
        filled = set(self.pairs())
        for name in self.rows:
            cells = [self.cells.get((other, name), UNTRIED) if (other, name) in filled else "" for other in self.columns]
            yield f"| **{name}** | " + " | ".join(cells) + " |"

    def write(self, path):
        """Updates the page and returns an error message, if any."""
        return replace(path, self.what, explained(self.listed)) or replace(path, self.name, list(self.lines()))

    def compare(self, path):
        """Checks that the page has every cell that these programs fill, and only existing
        techniques."""
        written = between(path, self.name)
        if not written or between(path, self.what) != explained(self.listed):
            return f"{path} has no {self.name}, or an old one of techniques"
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in written]
        if rows[0][1:] != self.columns or [row[0].strip("*") for row in rows[2:]] != self.rows:
            return f"the {self.name} in {path} is not of {', '.join(self.columns)}"
        for (one, other), found in self.cells.items():
            cell = rows[2 + self.rows.index(other)][1 + self.columns.index(one)]
            if cell != found:
                return f"{path} says '{cell}' of {one} and {other}, this run '{found}'"
        print(f"{len(self.cells)} cells are as in {path}")
        return None
