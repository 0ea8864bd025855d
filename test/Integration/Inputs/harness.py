# ===- harness.py - Compiles and runs executables in tests -------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Functions that the tests of executables share. Every failure ends the test with one line
that describes the expected result. Commands are printed, so that they can be repeated. Only
the standard library is used."""

import json
import pathlib
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "expectations"))
sys.dont_write_bytecode = True

import make_weights  # noqa: E402  (its folder is on the path only now)

# A shell without job control starts background processes with SIGINT ignored, nohup starts them
# with SIGHUP ignored, and an executable does not change an ignored signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def fail(message):
    print(f"FAIL: {message}", flush=True)
    raise SystemExit(1)


def fresh_directory(path):
    path = pathlib.Path(path)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def show(command):
    print("+ " + shlex.join(map(str, command)), flush=True)


def run(command, expect=0, **options):
    """Runs a command to its end and returns the process; the exit code must be `expect`."""
    show(command)
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, **options
    )
    if done.returncode != expect:
        print(done.stdout, done.stderr, sep="\n")
        fail(f"exit code {done.returncode}, expected {expect}")
    return done


def leading_options(arguments, **defaults):
    """Returns the values of the leading `--name=value` arguments by name, converted to the
    types of their defaults, and the remaining arguments."""
    values = dict(defaults)
    while arguments and arguments[0].startswith("--"):
        name, _, value = arguments[0][2:].partition("=")
        if name not in defaults:
            fail(f"unknown option '{arguments[0]}'")
        values[name] = type(defaults[name])(value)
        arguments = arguments[1:]
    return values, arguments


# Checks of --check-memory for each program on every target.
MEMORY_CHECKS = [
    "bytes of the arena up to the last byte written",
    "results for two different initial contents of the memory",
    "each command changes only its results",
    "slots overwritten after their last use",
]
# The emulated GPU may allocate memory, but it checks every access.
MEMORY_CHECKS_BY_TARGET = {
    "cpu": [
        "allocator calls in a step",
        "mappings made in a step",
        "live heap after every step",
    ],
    "cuda-emu": ["races, accesses out of bounds, reads of uninitialised bytes"],
}


def memory_failures(executable, flags, checks=(), launcher=(), **options):
    """Runs --check-memory of an executable that was compiled with the flags, as `launcher` starts
    it, and returns what is wrong, a line each. It must run all checks, and `checks`, for all
    programs."""
    done = subprocess.run([*launcher, executable, "--check-memory"], capture_output=True, text=True, **options)
    lines = done.stdout.splitlines()
    failures = [line for line in lines if not line.startswith("ok ")]
    if done.returncode != 0:
        failures.append(f"exit code {done.returncode}: {done.stderr.strip()}")
    programs = ["train"] if "--eval=off" in flags else ["train", "evaluate", "generate"]
    target = "cuda-emu" if "--target=cuda-emu" in flags else "cpu"
    for program in programs:
        for check in [*MEMORY_CHECKS, *MEMORY_CHECKS_BY_TARGET[target], *checks]:
            if not any(f"{program}: " in line and check in line for line in lines):
                failures.append(f"{program}: '{check}' was not checked")
    return failures


def compile_model(kilnc, model, executable, *flags):
    run([kilnc, model, *flags, "-o", executable])
    return executable


def write_inputs(model, directory):
    """Writes train.bin, validation.bin and, for a model directory, model.safetensors."""
    if str(model).endswith(".mlir"):
        sizes = re.search(r"vocab_size = (\d+)", pathlib.Path(model).read_text())
        config = {"vocab_size": int(sizes[1])}
        make_weights.write_tokens(directory / "train.bin", make_weights.train_tokens(config))
        make_weights.write_tokens(directory / "validation.bin", make_weights.validation_tokens(config))
        return
    if make_weights.main([str(model), str(directory)]):
        fail(f"no inputs for {model}")


def events(log, kind):
    """Returns the objects of one kind in a JSONL log; a step has no "event"."""
    lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
    return [line for line in lines if line.get("event", "step") == kind]


def losses(log):
    """Returns the values of a run that must be reproducible as text, because 17 digits are
    exact."""
    names = ("step", "loss", "lr", "grad_norm")
    return [
        tuple(re.search(rf'"{name}":[^,}}]*', line).group() for name in names if name in line)
        for line in pathlib.Path(log).read_text().splitlines()
        if line.startswith('{"step"')
    ]


def saved_tensors(path):
    """Returns the type, the shape and the bytes of each tensor of a safetensors file, by name."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    return {
        name: (entry["dtype"], entry["shape"], raw[8 + size :][slice(*entry["data_offsets"])])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def newest_checkpoint(directory):
    found = sorted(pathlib.Path(directory).glob("checkpoint-*"), key=lambda p: int(p.name[11:]))
    if not found:
        fail(f"{directory} has no checkpoint")
    return found[-1]


def require_equal_runs(what, log, saved, other_log, other_saved):
    """Checks that the losses of all steps and every saved tensor are equal to the last bit."""
    one, other = losses(log), losses(other_log)
    if not one:
        fail(f"{log} has no steps")
    for a, b in zip(one, other):
        if a != b:
            fail(f"{what}: {' '.join(a)} in {log} but {' '.join(b)} in {other_log}")
    if len(one) != len(other):
        fail(f"{what}: {len(one)} steps in {log} but {len(other)} in {other_log}")
    a, b = newest_checkpoint(saved), newest_checkpoint(other_saved)
    for name in ("model.safetensors", "adapter_model.safetensors", "optimizer.safetensors"):
        if (a / name).exists() != (b / name).exists():
            fail(f"{what}: only one of {a / name} and {b / name} exists")
        if (a / name).exists() and (a / name).read_bytes() != (b / name).read_bytes():
            fail(f"{what}: {a / name} and {b / name} differ")
    print(f"{what}: {len(one)} losses and {a.name} are equal", flush=True)
