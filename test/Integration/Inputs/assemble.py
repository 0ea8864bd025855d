# ===- assemble.py - PTX assembles, and nothing spills -----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""assemble.py FILE.ptx CHIP WIDE: the file is for the chip, ptxas assembles it, and
reports of every kernel that it spills no register and has no stack frame; the
registers of each are printed. So many row kernels, at least, read 16 bytes at a time.
Without ptxas only the text is checked."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import harness

path, chip, wide = sys.argv[1:]
text = pathlib.Path(path).read_text()
if not re.search(rf"^\.target {chip}$", text, re.M):
    harness.fail(f"{path} is not for {chip}")
bodies = dict(re.findall(r"^\.visible \.entry (\w+)\((.*?)^\}", text, re.M | re.S))
if not bodies:
    harness.fail(f"{path} has no kernels")
rows = [body for name, body in bodies.items() if name.endswith("_row")]
found = sum("ld.global.v4" in body for body in rows)
print(f"{found} of {len(rows)} row kernels read 16 bytes at a time")
if found < int(wide):
    harness.fail(f"only {found} row kernels of {path} have ld.global.v4, expected {wide}")


def find_assembler():
    for home in ("CUDA_HOME", "CUDA_PATH"):
        if home in os.environ:
            found = shutil.which("ptxas", path=os.path.join(os.environ[home], "bin"))
            if found:
                return found
    return shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")


ptxas = find_assembler()
if not ptxas:
    print(f"skipped: no ptxas to assemble {len(bodies)} kernels for {chip} with")
    sys.exit()
done = harness.run([ptxas, "-v", f"-arch={chip}", "-O3", path, "-o", "/dev/null"])
report = re.findall(
    r"Compiling entry function '(\w+)' for '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads.*?Used (\d+) registers",
    done.stdout + done.stderr,
    re.S,
)
if {name for name, *_ in report} != set(bodies):
    print(done.stdout, done.stderr)
    harness.fail(f"ptxas reports of {len(report)} kernels, the file has {len(bodies)}")
spilling = []
for name, architecture, stack, stores, loads, registers in report:
    print(f"{registers:>4} registers  {name}")
    if architecture != chip or (stack, stores, loads) != ("0", "0", "0"):
        spilling.append(f"{name} ({stack} bytes of stack, {stores} stored, {loads} loaded)")
if spilling:
    harness.fail(f"{len(spilling)} kernels spill on {chip}: {', '.join(spilling)}")
print(f"{chip}: {len(report)} kernels, 0 spills, at most {max(int(r[-1]) for r in report)} registers")
