# ===- context.py - Context of the suite's parts -----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""A part is a module with a function `rows(context)` that returns `Row`s. The function
of a row returns an Outcome or raises one of the exceptions of process.py."""

import dataclasses
import pathlib
import shutil
import sys
import time
import typing

from . import process

sys.dont_write_bytecode = True


@dataclasses.dataclass
class Outcome:
    values: dict
    ok: bool = True
    wanted: str = ""
    note: str = ""
    command: str = ""


@dataclasses.dataclass
class Row:
    name: str
    function: typing.Callable
    limit: float = 120.0  # Seconds.
    # If fewer seconds remain, the row is left to the next run.
    least: float = 10.0


class Context:
    def __init__(self, bundle, results, work, dry=False, quick=False):
        self.bundle = bundle
        self.results = results
        self.work = pathlib.Path(work)
        self.dry = dry  # There is no GPU, so times are meaningless.
        self.quick = dry or quick  # Small sizes, to test the suite itself.
        self.torch = ""  # PyTorch's version, or empty.
        self.torch_device = ""  # cuda, or cpu to test the scripts.
        self.deadline = float("inf")  # The deadline of the current row.

    def left(self):
        return self.deadline - time.monotonic()

    def run(self, command, **options):
        """Runs a program of the bundle with the remaining time of the row."""
        options.setdefault("environment", self.bundle.environment)
        return process.run(command, min(self.left(), 3600), **options)

    def folder(self, *names):
        """Returns an empty work folder."""
        path = self.work.joinpath(*names)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def need_torch(self):
        if not self.torch:
            raise process.NotRun("no PyTorch in this Python")
        if not self.torch_device:
            raise process.NotRun(f"PyTorch {self.torch} sees no GPU")

    def need_gpu(self):
        if self.dry:
            raise process.NotRun("needs a GPU")

    def portable(self, text):
        """Replaces the paths of this machine in a command."""
        for path, name in {self.bundle.folder: ".", self.work: "$WORK"}.items():
            text = text.replace(str(path), name)
        return text
