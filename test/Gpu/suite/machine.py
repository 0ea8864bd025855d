# ===- machine.py - Properties of the machine --------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""The GPU, its driver and clocks as nvidia-smi reports them, and the host processor."""

import os
import pathlib
import platform
import shutil
import subprocess
import sys

FIELDS = {
    "name": "gpu",
    "driver_version": "driver",
    "memory.total": "memory_mib",
    "power.limit": "power_limit_w",
    "clocks.max.sm": "max_sm_clock_mhz",
    "clocks.max.mem": "max_memory_clock_mhz",
}
CLOCKS = {"clocks.sm": "sm_clock_mhz", "clocks.mem": "memory_clock_mhz"}


def query(fields):
    """Queries the first GPU; returns an empty dictionary without nvidia-smi."""
    tool = shutil.which("nvidia-smi")
    if not tool:
        return {}
    command = [tool, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        return {}
    values = [value.strip() for value in lines[0].split(", ")]
    return {name: value for name, value in zip(fields.values(), values)}


def clocks():
    return query(CLOCKS)


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def pytorch():
    """Returns PyTorch's version, or "" if it is missing, and whether it has a GPU."""
    code = "import torch; print(torch.__version__, torch.cuda.is_available())"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", False
    words = done.stdout.split()
    return (words[0], words[1] == "True") if len(words) == 2 else ("", False)


def facts():
    values = query(FIELDS)
    values["processor"] = f"{processor()}, {len(os.sched_getaffinity(0))} threads"
    values["system"] = f"{platform.system()} {platform.release()}"
    return values
