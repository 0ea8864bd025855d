# ===- full_disk.py - kilnc with a full disk ---------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""full_disk.py MODEL WORK: compiles with every kind of output to a full disk and with a
limit of the file size. Each command must end with exit code 1 and exactly one line. Existing
files must be unchanged, and no other file may remain.

The full disk is a small tmpfs in a separate mount namespace. If the system does not permit
that, only the limit of file sizes is tested."""

import os
import pathlib
import resource
import subprocess
import sys

import harness

MODEL = sys.argv[1]
OUTPUTS = {
    "executable": ["-o", "{out}"],
    "object": ["--emit=obj", "-o", "{out}"],
    "schedule": ["--emit=schedule", "-o", "{out}"],
    "plan": ["--emit=plan", "-o", "{out}"],
    "page": ["--emit=plan", "-o", "-", "--report={out}.html"],
    "snapshot": ["--emit=plan", "-o", "-", "--report={out}.snapshot.json"],
    "remarks": ["--emit=plan", "-o", "-", "--memory-budget=1GiB", "--remarks={out}.yaml"],
}


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def refuse(directory, saying, kinds=tuple(OUTPUTS), preexec_fn=None, reason="File too large"):
    for kind in kinds:
        flags = OUTPUTS[kind]
        command = ["kilnc", MODEL, "--batch=2", "--seq=16", *(flag.format(out=directory / "out") for flag in flags)]
        for name in ("out", "out.html", "out.snapshot.json", "out.yaml"):
            (directory / name).write_text("old")
        before = contents(directory)
        harness.show(command)
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=preexec_fn
        )
        lines = done.stderr.splitlines()
        if done.returncode != 1 or len(lines) != 1 or not lines[0].startswith("kilnc: " + saying):
            harness.fail(f"{kind}: exit code {done.returncode}, {lines}, expected 1 and one line")
        if reason not in lines[0] or str(directory / "out") not in lines[0]:
            harness.fail(f"{kind}: said {lines}, expected the file and '{reason}'")
        if contents(directory) != before:
            harness.fail(f"{kind}: left {sorted(contents(directory))} or changed one of them")


def on_full_disk(directory):
    """In a mount namespace: creates a disk with one free page."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", directory], check=True)
    (directory / "filler").touch()
    with open(directory / "filler", "wb", buffering=0) as filler:
        for name in ("out", "out.html", "out.snapshot.json", "out.yaml"):
            (directory / name).write_text("old")
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
    refuse(directory, "cannot ", reason="No space left on device")


def main():
    work = pathlib.Path(sys.argv[2])
    if len(sys.argv) > 3:
        return on_full_disk(work)
    work = harness.fresh_directory(work)
    limited = work / "limited"
    limited.mkdir()
    # The linker's inputs and outputs are as large as the executable.
    texts = [kind for kind in OUTPUTS if kind != "executable"]
    refuse(limited, "cannot ", texts, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)))
    linker = (200 << 10, 200 << 10)
    # The linker reports the error in its own words, or a signal ends it.
    refuse(
        limited,
        "linking ",
        ["executable"],
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, linker),
        reason="' failed: ",
    )
    disk = work / "disk"
    disk.mkdir()
    namespace = ["unshare", "--mount", "--map-root-user"]
    if subprocess.run([*namespace, "mount", "-t", "tmpfs", "none", disk], stderr=subprocess.DEVNULL).returncode:
        print("no mount namespaces here: no full disk")
        return
    harness.run([*namespace, sys.executable, __file__, MODEL, disk, "full"])


main()
