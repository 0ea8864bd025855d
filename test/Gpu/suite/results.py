# ===- results.py - Persistent results of the suite --------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""The rows of a run. Each row is appended to results.jsonl as one JSON object when it is
complete, and results.md has a table of all rows. A later run into the same folder
continues after the existing rows.

status    ok, wrong (a target or tolerance is missed), error (a program failed),
          timeout, not run (a prerequisite is missing on this machine)
"""

import json
import pathlib

FINAL = ("ok", "wrong")


def figure(value):
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


class Results:
    def __init__(self, folder, again=False):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "results.jsonl"
        self.rows = {}
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                try:
                    row = json.loads(line)
                    self.rows[row["part"], row["row"]] = row
                except (ValueError, KeyError, TypeError):
                    continue  # An incomplete line of an interrupted run.
        self.again = again

    def has(self, part, name):
        row = self.rows.get((part, name))
        return bool(row) and (row["status"] in FINAL or not self.again)

    def value(self, part, name, key):
        """Returns a figure of an earlier row, or None."""
        return self.rows.get((part, name), {}).get("values", {}).get(key)

    def add(self, row):
        self.rows[row["part"], row["row"]] = row
        with self.file.open("a") as file:
            file.write(json.dumps(row) + "\n")
        self.write_table()

    def of(self, part):
        return [row for (name, _), row in self.rows.items() if name == part]

    def parts(self):
        return list(dict.fromkeys(part for part, _ in self.rows))

    def write_table(self):
        """Writes the table of all parts, after the properties of the machine."""
        lines = ["# Results of the GPU suite", ""]
        facts = next(iter(self.of("machine")), {})
        for key, value in facts.get("values", {}).items():
            lines.append(f"- {key}: {figure(value)}")
        for part in self.parts():
            if part == "machine":
                continue
            lines += ["", f"## {part}", ""]
            lines += ["| row | status | figures | wanted | note | s | command |"]
            lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
            for row in self.of(part):
                figures = ", ".join(f"{k} {figure(v)}" for k, v in row["values"].items())
                cells = [row["row"], row["status"], figures, row["wanted"], row["note"]]
                cells += [f"{row['seconds']:.1f}", f"`{row['command']}`" if row["command"] else ""]
                lines.append("| " + " | ".join(map(cell, cells)) + " |")
        (self.folder / "results.md").write_text("\n".join(lines) + "\n")

    def counts(self):
        counts = {}
        for row in self.rows.values():
            counts[row["status"]] = counts.get(row["status"], 0) + 1
        return counts
