#!/usr/bin/env python3
# ===- busy_step.py - Training steps on a busy machine -----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Measures training steps on a quiet machine and on a busy one.

    busy_step.py --make=FOLDER --kilnc=build/bin/kilnc   compiles the models
    busy_step.py NEW [OLD] [--rounds=4] [--models=...]   measures them
    busy_step.py NEW --processors=2 ...                  uses this many processors

NEW and OLD are folders that --make created with two versions of kilnc. Each model is
measured alone, beside one and two busy-waiting processes, and beside another run of itself.
Every round includes all of these measurements, and the samples of both versions are
interleaved, so that a drift of the machine affects them equally. Processes stay resident and
are stopped between their samples.

A reported value is the median over rounds. `median` is the median of the steps of a window.
`mean` is the wall-clock time of a window divided by its steps, which includes rare long
steps that a median hides. A window in which other processes used more than --quiet CPUs is
repeated, for up to --patience seconds in total; a disturbed window that is used nevertheless
is marked. The last table shows which targets were met, and the exit code is 1 if one was
missed.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from peer_step import TICK, machine_seconds, process_seconds, write_tokens

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TINY, SMALL = ROOT / "examples/tiny-gpt2", ROOT / "test/Integration/models/gpt2-124m"


class Model:
    """A model at one size, whose windows last at least `seconds` and `steps`."""

    def __init__(self, config, batch, seq, seconds, steps, slower, *flags):
        self.config, self.batch, self.seq = config, batch, seq
        self.seconds, self.steps, self.slower, self.flags = seconds, steps, slower, flags


# `slower` is the maximum ratio of a step's time to that of OLD.
MODELS = {
    "tiny-2x16": Model(TINY, 2, 16, 1.0, 5, 1.03),
    "tiny-8x128": Model(TINY, 8, 128, 1.2, 5, 1.03),
    "gpt2-4x64": Model(SMALL, 4, 64, 4.0, 3, 1.01, "--clip=off", "--dropout=0"),
}
# Concurrent load of a model: busy processes, further runs of the model, and the maximum ratio
# of a step's time to that of a quiet machine.
SCENES = {
    "alone": (0, 0, None),
    "1 busy": (1, 0, 2.0),
    "2 busy": (2, 0, 4.0),
    "2 runs": (0, 1, 2.5),
}


class Run:
    """A resident executable that is stopped between its samples."""

    def __init__(self, executable, data, log, options):
        command = [executable, f"--data={data}", "--steps=100000000", "--from-scratch"]
        command += [f"--threads={options.threads}", f"--log={log}"]
        log.touch()
        self.reader = log.open()
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.line = ""
        while not self.steps():
            if self.process.poll() is not None:
                message = self.process.stderr.read().decode()
                raise SystemExit(f"busy_step.py: {executable} ended: {message}")
            time.sleep(0.01)
        self.stop()

    def steps(self):
        """Returns the milliseconds of the steps logged since the last call."""
        found = []
        while True:
            text = self.reader.readline()
            if not text:
                return found
            self.line += text
            if self.line.endswith("\n"):
                entry, self.line = json.loads(self.line), ""
                if "step_ms" in entry:
                    found.append(entry["step_ms"])

    def go(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def close(self):
        self.process.kill()
        self.process.wait()


class Busy:
    """A busy-waiting process that is stopped between samples."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self.stop()

    go, stop, close = Run.go, Run.stop, Run.close


class Window:
    """The measurements of a run while others ran beside it."""

    def __init__(self, model, run, beside, options):
        everyone = [run, *beside]
        for one in everyone:
            one.go()
        # The signals interrupted a step, and the scheduler migrates threads at first.
        time.sleep(0.15)
        self.wait_for_steps(run, 1)
        own = sum(process_seconds(one.process.pid) for one in everyone)
        used, start = machine_seconds(), time.monotonic()
        taken = []
        while time.monotonic() < start + model.seconds or len(taken) < model.steps:
            time.sleep(0.05)
            taken += run.steps()
        wall = time.monotonic() - start
        used = machine_seconds() - used
        own = sum(process_seconds(one.process.pid) for one in everyone) - own
        for one in everyone:
            one.stop()
        self.median, self.mean = statistics.median(taken), 1e3 * wall / len(taken)
        self.quiet = used - own <= options.quiet * wall + 2 / TICK

    @staticmethod
    def wait_for_steps(run, count):
        while count > 0:
            time.sleep(0.005)
            count -= len(run.steps())


class Figures:
    """The windows of one version of a model in one scene."""

    def __init__(self):
        self.windows = []

    def add(self, model, run, beside, options):
        while True:
            start = time.monotonic()
            window = Window(model, run, beside, options)
            if window.quiet or options.patience <= 0:
                break
            time.sleep(0.5)
            options.patience -= time.monotonic() - start
        self.windows.append(window)

    def rounds(self, what):
        return [getattr(window, what) for window in self.windows]

    def cells(self):
        disturbed = sum(not window.quiet for window in self.windows)
        mark = f" ({disturbed} disturbed)" if disturbed else ""
        return [f"{statistics.median(self.rounds(w)):.2f}" for w in ("median", "mean")], mark


def ratio(figures, base, what):
    """Returns the median over rounds of the ratio of two values of the same round."""
    return statistics.median(a / b for a, b in zip(figures.rounds(what), base.rounds(what)))


def measure(name, versions, options, busy, work):
    """Measures all versions of a model in all scenes; returns {(version, scene): Figures}."""
    model, found, runs = MODELS[name], {}, {}
    data = work / f"{name}.bin"
    write_tokens(data, argparse.Namespace(model=model.config, batch=model.batch, seq=model.seq))
    try:
        for version, folder in versions.items():
            logs = [work / f"{name}-{version}-{i}.jsonl" for i in range(2)]
            runs[version] = [Run(folder / name, data, log, options) for log in logs]
        for number in range(options.rounds):
            for scene in options.scenes.split(","):
                loops, others, _ = SCENES[scene]
                order = list(versions)[:: -1 if number % 2 else 1]
                for version in order:
                    figures = found.setdefault((version, scene), Figures())
                    beside = busy[:loops] + runs[version][1 : 1 + others]
                    figures.add(model, runs[version][0], beside, options)
                texts = (f"{v} {found[v, scene].windows[-1].mean:.2f}" for v in order)
                what = f"{name}, round {number + 1}, {scene}"
                print(f"{what}: {', '.join(texts)} ms", file=sys.stderr)
    finally:
        for run in sum(runs.values(), []):
            run.close()
    return found


def table(name, found, versions, scenes):
    titles = (f"{version}: median, ms | mean, ms | mean / alone" for version in versions)
    rows = [f"### {name}", "", f"| | {' | '.join(titles)} |"]
    rows.append("|---|" + "---|---|---|" * len(versions))
    for scene in scenes:
        cells = [scene]
        for version in versions:
            texts, mark = found[version, scene].cells()
            value = ratio(found[version, scene], found[version, "alone"], "mean")
            texts.append(f"{value:.2f}{mark}")
            cells += texts
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def judge(name, found, versions, scenes):
    """Yields (target, bound, measured value) of the first version."""
    new = list(versions)[0]
    if len(versions) > 1:
        old = list(versions)[1]
        value = ratio(found[new, "alone"], found[old, "alone"], "median")
        yield f"{name}: median alone / OLD's", MODELS[name].slower, value
    for scene in scenes:
        bound = SCENES[scene][2]
        for what in ("median", "mean") if bound else ():
            value = ratio(found[new, scene], found[new, "alone"], what)
            yield f"{name}: {what}, {scene} / alone", bound, value


def make(options):
    options.make.mkdir(parents=True, exist_ok=True)
    for name in options.models.split(","):
        model = MODELS[name]
        command = [options.kilnc, model.config, f"--batch={model.batch}", f"--seq={model.seq}"]
        command += [f"--max-threads={options.threads}", "--eval=off", *model.flags]
        command += ["-o", options.make / name]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("new", nargs="?", type=pathlib.Path)
    parser.add_argument("old", nargs="?", type=pathlib.Path)
    parser.add_argument("--make", type=pathlib.Path)
    parser.add_argument("--kilnc", default=ROOT / "build/bin/kilnc")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--scenes", default=",".join(SCENES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processors", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--quiet", type=float, default=0.1, help="CPUs others may use")
    parser.add_argument("--patience", type=float, default=120, help="seconds to measure again")
    options = parser.parse_args()
    if not options.make and not options.new:
        parser.error("name the folder that --make filled")
    return options


def main():
    options = parse()
    # Stopped processes must be ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.make:
        return make(options)
    # Limits the processors, so that the busy processes occupy all of them.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.processors])
    versions = {"new": options.new}
    if options.old:
        versions["old"] = options.old
    busy = [Busy() for _ in range(2)]
    scenes = options.scenes.split(",")
    verdicts = []
    try:
        for name in options.models.split(","):
            with tempfile.TemporaryDirectory() as work:
                found = measure(name, versions, options, busy, pathlib.Path(work))
            print(table(name, found, versions, scenes), flush=True)
            verdicts += judge(name, found, versions, scenes)
    finally:
        for one in busy:
            one.close()
    print("| target | at most | found | |\n|---|---|---|---|")
    for target, bound, value in verdicts:
        print(f"| {target} | {bound:.2f} | {value:.3f} | {'met' if value <= bound else 'MISSED'} |")
    return int(any(value > bound for _, bound, value in verdicts))


if __name__ == "__main__":
    sys.exit(main())
