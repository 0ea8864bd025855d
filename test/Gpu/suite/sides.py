# ===- sides.py - Programs that take turns on one GPU ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Two sides of a benchmark stay resident and train in turns, so that a drift of the
clocks or of the machine affects both equally. A side is stopped while the other runs."""

import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import time

from . import process

HERE = pathlib.Path(__file__).resolve().parent


class Side:
    def __init__(self, context, command, environment, **pipes):
        self.context = context
        self.command = process.text_of(command)
        self.rounds = []
        self.errors = (context.work / f"side-{id(self)}.err").open("w+")
        self.process = subprocess.Popen(
            list(map(str, command)),
            stderr=self.errors,
            env=environment,
            start_new_session=True,
            **pipes,
        )

    def died(self):
        code = self.process.wait()
        self.errors.seek(0)
        raise process.Failed(f"exit code {code}: {process.first_line(self.errors.read())}")

    def check_time(self):
        if self.context.left() <= 0:
            raise process.TimedOut("the time limit of the row was reached")

    def close(self):
        process.end_group(self.process)
        self.errors.close()
        pathlib.Path(self.errors.name).unlink(missing_ok=True)

    def milliseconds(self):
        """Returns the median over rounds of each round's median step time."""
        return statistics.median(statistics.median(part) for part in self.rounds)


class Kiln(Side):
    """An executable that signals stop and continue."""

    WARM_STEPS = 4  # The first step synchronizes commands and is captured.

    def __init__(self, context, executable, tokens, flags):
        self.log = context.work / f"timed-{id(self)}.jsonl"
        self.log.touch()
        self.reader = self.log.open()
        self.library = ""  # The log's library field.
        command = [executable, f"--data={tokens}", "--steps=1000000", "--from-scratch"]
        command += [*flags, f"--log={self.log}"]
        super().__init__(
            context, command, context.bundle.environment, stdout=subprocess.DEVNULL
        )
        try:
            for _ in range(self.WARM_STEPS):
                self.next_step()
        except BaseException:
            self.close()
            raise
        self.process.send_signal(signal.SIGSTOP)

    def next_step(self):
        line = ""
        while True:
            line += self.reader.readline()
            if line.endswith("\n"):
                entry, line = json.loads(line), ""
                self.library = entry.get("library", self.library)
                if "step_ms" in entry:
                    return entry["step_ms"]
            elif self.process.poll() is not None:
                self.died()
            else:
                self.check_time()
                time.sleep(0.002)

    def run(self, steps):
        self.process.send_signal(signal.SIGCONT)
        self.next_step()  # The step that the signal interrupted.
        self.rounds.append([self.next_step() for _ in range(steps)])
        self.process.send_signal(signal.SIGSTOP)

    def close(self):
        super().close()
        self.reader.close()
        self.log.unlink(missing_ok=True)


class PyTorch(Side):
    """torch_steps.py, which executes one step per line of its standard input."""

    def __init__(self, context, case, *flags):
        context.need_torch()
        command = [sys.executable, HERE / "torch_steps.py"]
        command += [f"--config={context.bundle.model(case) / 'config.json'}"]
        command += [f"--batch={case.batch}", f"--length={case.length}"]
        command += [f"--device={context.torch_device}", *flags]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        super().__init__(context, command, dict(os.environ), **pipes)
        try:
            self.about = self.read()
        except BaseException:
            self.close()
            raise

    def read(self):
        """Reads a line of JSON byte by byte, so that select() sees all unread bytes."""
        line = b""
        pipe = self.process.stdout
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([pipe], [], [], 0.5)
            if not ready:
                self.check_time()
                continue
            byte = os.read(pipe.fileno(), 1)
            if not byte:
                self.died()
            line += byte
        return json.loads(line)

    def run(self, steps):
        times = []
        for _ in range(steps):
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
            times.append(self.read()["step_ms"])
        self.rounds.append(times)


def take_turns(sides, rounds, steps):
    for _ in range(rounds):
        for side in sides:
            side.run(steps)


def ratio(one, other):
    """Returns the speedup of `one`: the median over rounds of `other`'s time / `one`'s."""
    pairs = zip(one.rounds, other.rounds)
    return statistics.median(statistics.median(b) / statistics.median(a) for a, b in pairs)
