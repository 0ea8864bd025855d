# ===- process.py - Programs with a time limit -------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Runs programs with a time limit. A call returns a result or raises one of the three
exceptions below."""

import dataclasses
import os
import shlex
import signal
import subprocess
import time


class Failed(Exception):
    """A program could not be started or ended with an unexpected exit code."""


class TimedOut(Exception):
    """A program did not end within its time limit."""


class NotRun(Exception):
    """A prerequisite is missing on this machine."""


@dataclasses.dataclass
class Finished:
    command: str
    code: int
    out: str
    err: str
    seconds: float


def text_of(command):
    return shlex.join(map(str, command))


def end_group(process):
    """Ends a process and its descendants."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def first_line(text):
    """Returns the line of an error output that has the message."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or lines[-1:] or ["no message"])[0][:500]


def run(command, limit, environment=None, expect=(0,), **options):
    """Runs a program and returns its output. `limit` is in seconds."""
    begin = time.monotonic()
    text = text_of(command)
    if limit <= 0:
        raise TimedOut("no time was left to start the program")
    try:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
            **options,
        )
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from error
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end_group(process)
        process.communicate()
        raise TimedOut(f"ended after {limit:.0f} s") from None
    except BaseException:
        end_group(process)
        raise
    seconds = time.monotonic() - begin
    if expect is not None and process.returncode not in expect:
        code = process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise Failed(f"{how}: {first_line(err or out)}")
    return Finished(text, process.returncode, out, err, seconds)
