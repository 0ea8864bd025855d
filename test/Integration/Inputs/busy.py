# ===- busy.py - Steps beside busy processes ---------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""busy.py EXECUTABLE DATA LOG MOST: runs the executable alone, then beside a busy
process per processor, which leaves it half of the machine. Its steps may take at
most MOST times as long then. test/Benchmark/busy_step.py has exact figures."""

import os
import subprocess
import sys

import harness

executable, data, log, most = sys.argv[1:]
STEPS = 150


def step_ms():
    command = [executable, f"--data={data}", "--threads=2", f"--steps={STEPS}", f"--log={log}"]
    harness.run(command)
    return sum(step["step_ms"] for step in harness.events(log, "step")) / STEPS


alone = step_ms()
loop = [sys.executable, "-c", "while True: pass"]
busy = [subprocess.Popen(loop) for _ in os.sched_getaffinity(0)]
try:
    beside = step_ms()
finally:
    for process in busy:
        process.kill()
        process.wait()
print(f"a step takes {alone:.2f} ms alone, {beside:.2f} ms beside {len(busy)} busy processes")
if beside > float(most) * alone:
    harness.fail(f"that is {beside / alone:.1f} times as long; at most {most} was expected")
