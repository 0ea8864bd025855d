# ===- training.py - Training runs of all sides ------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Runs an executable or PyTorch and stores its losses, gradients and weights in the work
folder. Each run is executed once; all rows that need it share its results."""

import dataclasses
import json
import pathlib
import sys

from . import data, process

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Trained:
    losses: list
    norms: list
    gradients: pathlib.Path
    weights: pathlib.Path
    command: str

    @staticmethod
    def read(folder):
        """Returns the run that keep() stored, or None."""
        note = folder / "trained.json"
        if not note.exists():
            return None
        fields = json.loads(note.read_text())
        for key in ("gradients", "weights"):
            fields[key] = pathlib.Path(fields[key])
        return Trained(**fields)

    def keep(self, folder):
        (folder / "trained.json").write_text(json.dumps(dataclasses.asdict(self), default=str))
        return self


def steps_of(context, case):
    return min(case.steps, 3) if context.quick else case.steps


def run_folder(context, case, name):
    return context.work / "runs" / case.name / name


def train(context, case, target, *extra, name=None):
    """Trains with an executable. A run with extra flags needs a name of its own."""
    name = name or target
    if kept := Trained.read(run_folder(context, case, name)):
        return kept
    steps = steps_of(context, case)
    folder = context.folder("runs", case.name, name)
    command = [
        context.bundle.executable(case, target),
        f"--data={data.tokens_for(context, case, steps)}",
        f"--init={data.weights_for(context, case)}",
        *case.run_flags(steps),
        f"--log={folder / 'log.jsonl'}",
        f"--dump-gradients={folder / 'gradients.safetensors'}",
        f"--save={folder / 'saved'}",
        *extra,
    ]
    done = context.run(command)
    _, logged, _ = data.read_log(folder / "log.jsonl")
    return Trained(
        [data.number(step["loss"]) for step in logged],
        [data.number(step["grad_norm"]) for step in logged if "grad_norm" in step],
        folder / "gradients.safetensors",
        data.newest_model(folder / "saved"),
        context.portable(done.command),
    ).keep(folder)


def exact_case(context, case):
    """Returns the case whose fp64 run is the reference of this one, or None."""
    other = context.bundle.named(case.exact) if case.exact else case
    return other if other and context.bundle.has(other, "cpu64") else None


def job(context, case):
    """Returns a job of torch_train.py."""
    steps = steps_of(context, case)
    return {
        "config": str(context.bundle.model(case) / "config.json"),
        "weights": str(data.weights_for(context, case)),
        "tokens": str(data.tokens_for(context, case, steps)),
        "batch": case.batch,
        "length": case.length,
        "steps": steps,
        "optimizer": case.optimizer,
        "rate": case.rate,
        "clip": case.clip,
        "precision": case.precision,
        "out": str(context.folder("runs", case.name, "pytorch")),
    }


def train_pytorch(context, case):
    """Trains a case with PyTorch. The first call for a small model trains all small models,
    since starting PyTorch takes longer than training them."""
    context.need_torch()
    folder = run_folder(context, case, "pytorch")
    if kept := Trained.read(folder):
        return kept
    together = [case]
    if not case.large:
        twins = [other for other in context.bundle.using("correctness") if other.twin]
        together = [other for other in twins if not other.large]
    jobs = context.work / f"torch-{case.name}.json"
    jobs.write_text(json.dumps([job(context, other) for other in together]))
    command = [sys.executable, HERE / "torch_train.py", f"--jobs={jobs}"]
    command.append(f"--device={context.torch_device}")
    # PyTorch must load its own libraries, not those of the bundle.
    done = context.run(command, environment=None)
    for other in together:
        out = run_folder(context, other, "pytorch")
        log = json.loads((out / "log.json").read_text())
        if "error" in log:
            continue
        Trained(
            log["losses"],
            log["norms"],
            out / "gradients.safetensors",
            out / "weights.safetensors",
            context.portable(done.command),
        ).keep(out)
    trained = Trained.read(folder)
    if not trained:
        log = json.loads((folder / "log.json").read_text())
        raise process.Failed(f"PyTorch: {log['error']}")
    return trained
