# ===- context.py - What every part of the suite has at hand -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""A part is a module with `rows(context)`, which gives `Row`s. A row's function
returns an Outcome, or raises one of process.py's exceptions."""

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
    # Below this a row is left to the next run.
    least: float = 10.0


class Context:
    def __init__(self, bundle, results, work, dry=False, quick=False):
        self.bundle = bundle
        self.results = results
        self.work = pathlib.Path(work)
        self.dry = dry  # Nothing is a GPU: times mean nothing.
        self.quick = dry or quick  # As little as shows that the suite works.
        self.torch = ""  # PyTorch's version, or empty.
        self.torch_device = ""  # Where it computes: cuda, or cpu to try the scripts.
        self.deadline = float("inf")  # Of the row that runs.

    def left(self):
        return self.deadline - time.monotonic()

    def run(self, command, **options):
        """A program of the bundle, until it ends or the row's time is up."""
        options.setdefault("environment", self.bundle.environment)
        return process.run(command, min(self.left(), 3600), **options)

    def folder(self, *names):
        """An empty folder for a row."""
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
        """A command as somebody else would write it."""
        for path, name in {self.bundle.folder: ".", self.work: "$WORK"}.items():
            text = text.replace(str(path), name)
        return text
