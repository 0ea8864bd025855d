# ===- runtime_archives.py - Runtime archives are built with kilnc -----------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""runtime_archives.py SOURCE BUILD: checks that building the target kilnc also builds every
archive that kilnc links into executables, for all targets."""

import pathlib
import re
import sys

import harness

source, build = sys.argv[1:]
link = (pathlib.Path(source) / "lib/Compiler/Link.cpp").read_text()
archives = set(re.findall(r'"(libKiln\w+\.a)"', link))
if "libKilnRuntime.a" not in archives:
    harness.fail("Link.cpp names no archives")
commands = harness.run(["ninja", "-C", build, "-t", "commands", "kilnc"]).stdout
missing = sorted(name for name in archives if f"lib/{name}" not in commands)
if missing:
    harness.fail(f"building kilnc does not build {', '.join(missing)}")
print(f"{len(archives)} archives")
