# ===- excerpts.py - IR excerpts in the documentation ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""excerpts.py ROOT FOLDER: finds code blocks on the pages of FOLDER that start with a
command `$ kilnc MODEL --emit=STAGE ...` without -o, runs the command, and compares its
output with the rest of the block. A line with only `...` stands for omitted lines; line
breaks are ignored."""

import pathlib
import re
import shlex
import subprocess
import sys

BLOCK = re.compile(r"^```\w*\n\$ (kilnc (?:.*\\\n)*.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def first_missing(parts, output):
    """Returns the first part that does not follow the previous parts in the output."""
    at = 0
    for part in parts:
        found = output.find(part, at)
        if found < 0:
            return part
        at = found + len(part)
    return None


def words(text):
    return " ".join(text.split())


def main():
    root, folder = map(pathlib.Path, sys.argv[1:])
    count, problems = 0, []
    for page in sorted(folder.rglob("*.md")):
        name = page.relative_to(folder)
        for command, excerpt in BLOCK.findall(page.read_text()):
            arguments = shlex.split(command.replace("\\\n", ""))
            if "-o" in arguments or not any(argument.startswith("--emit=") for argument in arguments):
                continue
            count += 1
            done = subprocess.run(arguments, cwd=root, capture_output=True, text=True)
            if done.returncode:
                problems.append(f"{name}: '{command}' ended with {done.returncode}: {done.stderr.strip()}")
                continue
            parts = [words(part) for part in re.split(r"^ *\.\.\. *$", excerpt, flags=re.MULTILINE)]
            if (missing := first_missing(filter(None, parts), words(done.stdout))) is not None:
                problems.append(f"{name}: '{command}' does not print '{missing}'")
    print(*problems, sep="\n" if problems else "")
    print(f"{count} excerpts, {len(problems)} differences")
    return bool(problems) or not count


sys.exit(main())
