# ===- getting_started.py - The documented training run, interrupted ---------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""getting_started.py KILNC SOURCE WORK STOPS [TRAIN VAL]: runs the commands of
docs/use/getting-started.md, which compile and train a model. The same training is then
stopped by SIGINT at STOPS random steps and continued each time with the page's command. The
last checkpoint must have the bits of the uninterrupted run. Then the run is extended with
the page's command. The default texts are the documentation of kiln."""

import json
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import time

import harness


def commands_of(page, section):
    """Returns the commands of all blocks of a section as lists of words."""
    text = page.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    blocks = text.split("\n```\n")[1::2]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def one(commands, what, test):
    found = [command for command in commands if test(command)]
    if len(found) != 1:
        harness.fail(f"the page has {len(found)} commands that {what}, expected one")
    return found[0]


def steps_done(directory):
    """Returns the newest step in the checkpoint directory."""
    return int(harness.newest_checkpoint(directory / "checkpoints").name[11:])


def stop_at(command, directory, step):
    """Runs `command` until it has printed `step`, then sends SIGINT."""
    harness.show(command)
    process = subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if line.startswith(f"step {step}/"):
            process.send_signal(signal.SIGINT)
            break
    _, message = process.communicate(timeout=600)
    if process.returncode != 75:
        harness.fail(f"exit code {process.returncode}, expected 75: {message}")
    return message


def prepare(directory, work, source):
    """Creates the files that the page's commands use in a separate directory."""
    directory.mkdir()
    for name in ("train.txt", "val.txt", "train"):
        (directory / name).symlink_to(work / name)
    return directory


def main(kilnc, source, work, stops, train=None, val=None):
    source = pathlib.Path(source)
    work = harness.fresh_directory(work).resolve()
    page = (source / "docs/use/getting-started.md").read_text()
    prose = "".join(p.read_text() for p in sorted((source / "docs").glob("*/*.md")))
    (work / "train.txt").write_text(pathlib.Path(train).read_text() if train else prose)
    (work / "val.txt").write_text(pathlib.Path(val).read_text() if val else prose[:20000])

    compile_model = one(
        commands_of(page, "3. Compile"), "compile", lambda c: "-o" in c
    )
    if compile_model[0] != "build/bin/kilnc":
        harness.fail(f"the page compiles with {compile_model[0]}")
    harness.run([kilnc, *compile_model[1:-1], work / "train"], cwd=source)

    training = commands_of(page, "4. Train")
    start = one(training, "start", lambda c: not any("--resume" in w for w in c))
    resume = one(
        training,
        "resume",
        lambda c: any("--resume" in w for w in c) and not any("--steps" in w for w in c),
    )
    extend = one(
        training, "go on", lambda c: all(any(f in w for w in c) for f in ("--resume", "--steps"))
    )
    if resume != ["./train", "--data=train.txt", "--resume=checkpoints", "--save=checkpoints"]:
        harness.fail(f"the page resumes by {shlex.join(resume)}")

    whole = prepare(work / "whole", work, source)
    harness.run(start, cwd=whole)
    steps = steps_done(whole)

    seed = random.SystemRandom().randrange(2**32)
    print(f"seed of the random steps: {seed}")
    places = sorted(random.Random(seed).sample(range(1, steps - 20), int(stops)))
    parts = prepare(work / "parts", work, source)
    command, done = start, 0
    for place in places:
        # A stop takes effect one or more steps late, possibly after the next planned stop.
        message = stop_at(command, parts, max(place, done + 1))
        if done and message.splitlines()[0] != (
            f"resuming from checkpoints/checkpoint-{done} at step {done} of {steps}"
        ):
            harness.fail(f"the resumed run begins with {message!r}")
        done = steps_done(parts)
        print(f"stopped after step {done}", flush=True)
        command = resume
    harness.run(resume, cwd=parts)

    last = f"checkpoint-{steps}"
    for name in ("model.safetensors", "optimizer.safetensors", "config.json"):
        a, b = (d / "checkpoints" / last / name for d in (whole, parts))
        if a.read_bytes() != b.read_bytes():
            harness.fail(f"{a} and {b} differ")
    manifests = [
        json.loads((d / "checkpoints" / last / "kiln_manifest.json").read_text())["extra"]
        for d in (whole, parts)
    ]
    if manifests[0] != manifests[1]:
        harness.fail(f"the manifests say {manifests[0]} and {manifests[1]}")
    print(f"{len(places)} stops: {last} has the bits of the run left alone", flush=True)

    finished = harness.run(resume, cwd=parts)
    if "note: this run is finished: its 1000 steps are done" not in finished.stderr:
        harness.fail(f"a finished run says {finished.stderr!r}")
    beyond = harness.run(extend, cwd=parts)
    if "note: --steps changes from 1000 to 2000" not in beyond.stderr:
        harness.fail(f"going on beyond the end says {beyond.stderr!r}")
    if steps_done(parts) != 2000:
        harness.fail(f"going on ended at step {steps_done(parts)}, expected 2000")


main(*sys.argv[1:])
