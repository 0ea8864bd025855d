# ===- stop_resume.py - Stopped and resumed runs -----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""stop_resume.py [--steps=300] KILNC MODEL WORK STOPS [compile flags]: one run is
uninterrupted; another run is stopped by SIGTERM and SIGINT alternately at STOPS random
steps, and resumed each time. No flag that affects the trajectory is given again, and all of
them differ from their defaults. Losses and all saved tensors must be equal to the last bit."""

import random
import signal
import subprocess
import sys
import time

import harness


def run_until(command, log, lines, stop):
    """Starts a run and sends the signal `stop` after this many log lines; returns the exit
    code."""
    harness.show(command)
    process = subprocess.Popen(
        [str(c) for c in command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None:
        if log.exists() and log.read_bytes().count(b'{"step"') >= lines:
            process.send_signal(stop)
            break
        time.sleep(0.001)
    _, message = process.communicate(timeout=120)
    return process.returncode, message


def main(steps, kilnc, model, work, stops, *flags):
    work = harness.fresh_directory(work)
    harness.write_inputs(model, work)
    executable = harness.compile_model(kilnc, model, work / "train", "--max-threads=2", *flags)
    # Flags that a resume repeats, which do not affect the trajectory.
    common = [
        executable,
        f"--data={work / 'train.bin'}",
        f"--val-data={work / 'validation.bin'}",
        "--val-batches=1",
    ]
    trajectory = [
        f"--steps={steps}",
        "--seed=5",
        "--shuffle=3",
        "--lr=0.002",
        "--lr-schedule=wsd",
        f"--cooldown-steps={steps // 2}",
        "--min-lr=0.0001",
        "--warmup-steps=7",
        "--warmup=constant",
        "--lr-scaling=sqrt",
        "--base-batch=1",
    ]
    if "--clip=off" not in flags:
        trajectory.append("--grad-clip=0.5")
    whole, parts = work / "whole.jsonl", work / "parts.jsonl"
    harness.run([*common, *trajectory, f"--log={whole}", f"--save={work / 'whole'}"])
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed of the random steps: {seed}")
    chance = random.Random(seed)
    # Stops take effect one or more steps late, so half of the steps is reserved for that.
    longest = steps // 2 // int(stops)
    command = [*common, *trajectory, f"--log={parts}", f"--save={work / 'parts'}"]
    done = 0
    for number in range(int(stops)):
        target = done + chance.randrange(1, max(longest, 2))
        stop = (signal.SIGTERM, signal.SIGINT)[number % 2]
        code, message = run_until(command, parts, target, stop)
        if code != 75:
            print(message)
            harness.fail(f"exit code {code} after {stop.name} at step {target}, expected 75")
        if number and f"parts/checkpoint-{done} at step {done} of {steps}" not in message:
            harness.fail(f"the first line does not name the checkpoint: {message}")
        done = int(harness.newest_checkpoint(work / "parts").name[11:])
        if f"after step {done}; continue with --resume=" not in message:
            harness.fail(f"the message does not say how to continue: {message}")
        if harness.events(parts, "end")[-1]["reason"] != "stopped":
            harness.fail("the log does not end with a stop")
        print(f"stopped after step {done}, asked for at {target}")
        if done >= steps:
            harness.fail("the run ended before it could be stopped")
        command = [*common, f"--log={parts}", f"--save={work / 'parts'}"]
        command.append(f"--resume={work / 'parts'}")
    message = harness.run(command).stderr
    expected = f"resuming from {work / 'parts'}/checkpoint-{done} at step {done} of {steps}\n"
    if not message.startswith(expected) or "changes from" in message:
        harness.fail(f"standard error is {message!r}, expected {expected!r}")
    harness.require_equal_runs("stopped", whole, work / "whole", parts, work / "parts")
    ends = [harness.events(log, "eval")[-1]["loss"] for log in (whole, parts)]
    if ends[0] != ends[1]:
        harness.fail(f"validation losses {ends} differ")


options, arguments = harness.leading_options(sys.argv[1:], steps=300)
main(options["steps"], *arguments)
