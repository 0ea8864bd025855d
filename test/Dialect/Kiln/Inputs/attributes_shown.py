# ===- attributes_shown.py - Every attribute of every op is in a test --------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""attributes_shown.py TEST PAGE...: checks that the CHECK lines of TEST contain every
attribute of every op that the reference pages list. An attribute that is printed with
its name, as a keyword or in the attribute dictionary, must occur with that name. For an
attribute that is printed without its name, it is sufficient that the op occurs."""

import re
import sys
from pathlib import Path

# Attributes that the hand-written syntax of kiln.program prints without their names.
PLACED = {"kiln.program": {"sym_name", "function_type", "arg_attrs", "res_attrs"}}

test, *pages = sys.argv[1:]
checks: dict[str, str] = {}
for line in Path(test).read_text().splitlines():
    if found := re.search(r"CHECK.*?\b(kiln\.\w+)\b(.*)", line):
        checks[found[1]] = checks.get(found[1], "") + found[2] + "\n"

missing, count = [], 0
for page in pages:
    for section in re.split(r"^### (?=`kiln\.)", Path(page).read_text(), flags=re.MULTILINE)[1:]:
        op = section[1 : section.index("`", 1)]
        syntax = re.search(r"operation ::= (.*)", section)
        placed = set(PLACED.get(op, ()))
        for name in re.findall(r"<tr><td><code>(\w+)</code></td>", section.split("#### Operands")[0]):
            count += 1
            if syntax and f"${name}" in syntax[1] and f"`{name}`" not in syntax[1]:
                placed.add(name)
            if op not in checks:
                missing.append(f"{op}: {name} (the op does not occur)")
            elif name not in placed and not re.search(rf"\b{name}\b", checks[op]):
                missing.append(f"{op}: {name}")
if not count:
    sys.exit(f"{' '.join(pages)}: no attributes found")
if missing:
    sys.exit(f"{test}: no CHECK line has\n  " + "\n  ".join(missing))
print(f"{count} attributes are shown")
