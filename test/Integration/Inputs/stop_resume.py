# ===- stop_resume.py - A stopped run goes on with the same bits -------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""stop_resume.py [--steps=300] KILNC MODEL WORK STOPS [compile flags]: one run is left
alone, another gets SIGTERM at STOPS random steps and is resumed after each. Losses and
all that is saved at the end must be equal to the last bit."""

import random
import signal
import subprocess
import sys
import time

import harness


def run_until(command, log, lines):
    """Starts a run, stops it when its log has so many lines; the exit code."""
    harness.show(command)
    process = subprocess.Popen(
        [str(c) for c in command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None:
        if log.exists() and log.read_bytes().count(b'{"step"') >= lines:
            process.send_signal(signal.SIGTERM)
            break
        time.sleep(0.001)
    _, message = process.communicate(timeout=120)
    return process.returncode, message


def main(steps, kilnc, model, work, stops, *flags):
    work = harness.fresh_directory(work)
    harness.write_inputs(model, work)
    executable = harness.compile_model(kilnc, model, work / "train", "--max-threads=2", *flags)
    common = [
        executable,
        f"--data={work / 'train.bin'}",
        f"--val-data={work / 'validation.bin'}",
        "--val-batches=1",
        "--shuffle=3",
        f"--steps={steps}",
        "--lr=0.002",
        "--lr-schedule=linear",
        "--warmup-steps=7",
    ]
    whole, parts = work / "whole.jsonl", work / "parts.jsonl"
    harness.run([*common, f"--log={whole}", f"--save={work / 'whole'}"])
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed of the random steps: {seed}")
    chance = random.Random(seed)
    # Stops arrive a step or more late: a quarter of the steps is left for that.
    longest = steps * 3 // 4 // int(stops)
    command = [*common, f"--log={parts}", f"--save={work / 'parts'}"]
    done = 0
    for _ in range(int(stops)):
        target = done + chance.randrange(1, max(longest, 2))
        code, message = run_until(command, parts, target)
        if code != 75:
            print(message)
            harness.fail(f"exit code {code} after SIGTERM at step {target}, expected 75")
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
    harness.run(command)
    harness.require_equal_runs("stopped", whole, work / "whole", parts, work / "parts")
    ends = [harness.events(log, "eval")[-1]["loss"] for log in (whole, parts)]
    if ends[0] != ends[1]:
        harness.fail(f"validation losses {ends} differ")


options, arguments = harness.leading_options(sys.argv[1:], steps=300)
main(options["steps"], *arguments)
