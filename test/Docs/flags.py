# ===- flags.py - Flags in the documentation ---------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""flags.py DOCS EXECUTABLE: compares the flags in the --help text of kilnc, of an executable
that kilnc compiled, of kiln-run and of kiln-diff with DOCS.

- The tables of the user guide list exactly the flags of kilnc and of the executable.
- The user guide or kiln-diff.md mentions every flag of kiln-run and kiln-diff.
- Every flag in backticks on any page belongs to one of these programs, to kiln-opt, or to a script.
- kilnc recognises each flag of the executable as such, and the executable each flag of kilnc."""

import pathlib
import re
import subprocess
import sys

docs, executable = pathlib.Path(sys.argv[1]), sys.argv[2]
root = docs.parent
# Flags of CMake, CTest, lit, PyTorch, MPI and NVIDIA tools that pages mention.
FOREIGN = {"--build", "--preset", "--long", "--param", "--verbose", "--filter", "--gtest_filter", "--test-dir"}
FOREIGN |= {"--bind-to", "--mca"}
# Flags between kiln-diff and an executable, which users do not need.
HIDDEN = {"--lockstep"}
ALWAYS = {"--help", "--version", "--help-list", "--help-hidden", "--help-list-hidden"}
problems = []


def said(command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != code:
        sys.exit(f"FAIL: {command} ended with {done.returncode}, expected {code}: {done.stderr}")
    return done.stdout + done.stderr


def flags_of_help(command):
    """Returns the flags at line starts of the help text."""
    found = re.findall(r"^ +(-o|--[\w-]+)", said([*command, "--help"]), re.MULTILINE)
    return set(found) - ALWAYS


def flags_in(text):
    spans = [span for line in text.splitlines() for span in re.findall(r"`([^`]+)`", line)]
    return {flag for span in spans for flag in re.findall(r"(?<![\w-])(-o|--[a-z][\w-]*)", span)}


def section(page, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)[1]


def table_flags(text):
    """Returns the flags in the first cells of a section's tables."""
    rows = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    return {flag for row in rows for flag in flags_in(row.replace("\\|", ""))}


def compare(what, documented, helped):
    for flag in sorted(helped - documented):
        problems.append(f"{what}: {flag} is in --help and not in the documentation")
    for flag in sorted(documented - helped):
        problems.append(f"{what}: {flag} is in the documentation and not in --help")


guide = (docs / "use/user-guide.md").read_text()
compiler, trainer = flags_of_help(["kilnc"]), flags_of_help([executable])
compare("kilnc", table_flags(section(guide, "kilnc")), compiler)
compare("the executable", table_flags(section(guide, "The executable")), trainer)
own = {}
for tool, extra in (("kiln-run", ""), ("kiln-diff", (docs / "use/kiln-diff.md").read_text())):
    own[tool] = flags_of_help([tool])
    compare(tool, flags_in(guide + extra) & own[tool], own[tool])

passes = set(re.findall(r"(--[\w-]+)", said(["kiln-opt", "--help"])))
passes |= {"--" + name for name in re.findall(r"-{1,2}(kiln[\w-]*)", (docs / "reference/passes.md").read_text())}
scripts = set()
for path in [*root.glob("tools/*"), *root.glob("test/**/*.py")]:
    if path.suffix in (".py", ".sh"):
        scripts |= set(re.findall(r"--[a-z][\w-]*", path.read_text()))
known = compiler | trainer | own["kiln-run"] | own["kiln-diff"] | passes | scripts | FOREIGN | ALWAYS | HIDDEN
for page in [root / "README.md", *docs.rglob("*.md")]:
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for flag in sorted(flags_in(line) - known):
            problems.append(f"{page.relative_to(root)}:{number}: no program has {flag}")

# The two programs explain each other's flags, except those that both have.
for flag in sorted(compiler - trainer):
    if not re.match(rf"error: {flag} (was fixed|is a flag of kilnc)", said([executable, flag], code=2)):
        problems.append(f"an executable does not know {flag} as a flag of kilnc: is it in FlagTables.cpp?")
for flag in sorted(trainer - compiler):
    if not said(["kilnc", flag], code=2).startswith(f"kilnc: {flag} is a flag of the executable"):
        problems.append(f"kilnc does not know {flag} as a flag of executables: is it in FlagTables.cpp?")

print(*problems, sep="\n" if problems else "")
print(f"{len(compiler)} flags of kilnc, {len(trainer)} of executables, {len(problems)} differences")
sys.exit(bool(problems))
