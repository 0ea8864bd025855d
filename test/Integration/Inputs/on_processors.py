# ===- on_processors.py - Run a command on a few processors -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""on_processors.py COUNT COMMAND...: runs a command on the first COUNT of the processors that this
process may use, or on all of them if COUNT is "all"."""

import os
import sys

count, *command = sys.argv[1:]
processors = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, processors if count == "all" else processors[: int(count)])
os.execvp(command[0], command)
