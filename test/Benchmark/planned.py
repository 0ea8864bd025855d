# ===- planned.py - Plans of a model for many memory budgets ------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Runs kilnc to plan a model, without executing it.

`options` has the attributes kilnc, model and flags: the compiler, the directory of the model and
the flags of all plans, as one string.
"""

import argparse
import json
import pathlib
import re
import shlex
import subprocess
import time


def argument_parser(description):
    """Returns a parser of the arguments that `options` needs, to which scripts add their own."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=raw)
    parser.add_argument("--kilnc", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--flags", default="")
    parser.add_argument("--markdown", type=pathlib.Path)
    return parser


def run(options, *flags):
    """Returns (result of kilnc, seconds)."""
    command = [options.kilnc, options.model, *shlex.split(options.flags), *flags]
    start = time.monotonic()
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    return done, time.monotonic() - start


def plan(options, work, *flags):
    """Returns (plan, seconds of planning), or (None, error message)."""
    output = pathlib.Path(work) / "plan.json"
    done, seconds = run(options, *flags, "--emit=plan", "-o", output)
    if done.returncode:
        return None, done.stderr
    return json.loads(output.read_text()), seconds


def smallest_budget(options, work, *flags):
    """Returns the smallest feasible budget in bytes."""
    _, refusal = plan(options, work, *flags, "--memory-budget=1KiB")
    return int(re.search(r"smallest feasible budget .*?is .*?\((\d+) bytes\)", refusal).group(1))


def spaced(floor, most, count):
    """Returns budgets from `floor` to `most` that are evenly spaced in their logarithm."""
    return [round(floor * (most / floor) ** (number / (count - 1))) for number in range(count)]
