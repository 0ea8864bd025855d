# ===- same_schedule.py - Equal schedules of kiln-opt and kilnc --------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""same_schedule.py KILNC KILN-OPT FOLDER LINES: for each command line of the file LINES,
checks that kiln-opt produces the schedule of kilnc byte for byte from the forward graph that
kilnc writes, with the pipeline that kilnc prints. The file may contain `{models}` and
`{examples}`; `#` starts a comment."""

import pathlib
import subprocess
import sys

import harness

kilnc, kiln_opt, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
lines = pathlib.Path(sys.argv[4]).read_text().splitlines()
root = pathlib.Path(__file__).resolve().parents[3]
places = {"models": root / "test/Integration/models", "examples": root / "examples"}


def run(*command):
    done = subprocess.run(command, capture_output=True)
    if done.returncode or done.stderr:
        harness.fail(f"{command}: exit code {done.returncode}: {done.stderr.decode()}")
    return done.stdout


folder.mkdir(parents=True, exist_ok=True)
count = 0
for line in lines:
    flags = line.split("#")[0].format(**places).split()
    if not flags:
        continue
    flags.append("--max-threads=2")
    forward = folder / "forward.mlir"
    run(kilnc, *flags, "--emit=forward", "-o", forward)
    pipeline = run(kilnc, *flags, "--print-pipeline", "-o", folder / "never").decode()
    expected = run(kilnc, *flags, "--emit=schedule")
    if run(kiln_opt, f"--pass-pipeline={pipeline.strip()}", forward) != expected:
        harness.fail(f"{line}: kiln-opt gives another schedule by {pipeline}")
    if (folder / "never").exists():
        harness.fail(f"{line}: --print-pipeline wrote a file")
    count += 1
print(f"{count} schedules are equal")
