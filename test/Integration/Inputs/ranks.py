# ===- ranks.py - Starts executables as several ranks ------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Functions that the tests of several ranks share."""

import os
import pathlib
import shlex
import subprocess
import time

import harness


def environment():
    """Returns the environment for mpirun, without variables of a launcher of this test."""
    prefixes = ("OMPI_", "PMIX_", "PMI_", "SLURM_")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in names and not name.startswith(prefixes)
    }


def sizes_of(mesh):
    """Returns the ranks of each axis of a mesh such as dp=2,tp=4."""
    sizes = {"dp": 1, "tp": 1}
    for axis in mesh.split(","):
        name, size = axis.split("=")
        sizes[name] = int(size)
    return sizes


def compile_mesh(kilnc, model, work, mesh, batch, *flags):
    """Compiles a model for a mesh with a global batch. Returns the number of ranks, and the
    executable."""
    sizes = sizes_of(mesh)
    name = mesh.replace("=", "").replace(",", "-")
    flags = [*flags, f"--batch={batch // sizes['dp']}", f"--mesh={mesh}"]
    return sizes["dp"] * sizes["tp"], harness.compile_model(kilnc, model, work / name, *flags)


def command(mpirun, ranks, *arguments):
    """Returns the command that starts `ranks` ranks."""
    return [*shlex.split(mpirun), "-n", str(ranks), *map(str, arguments)]


def run(mpirun, ranks, *arguments, expect=0):
    """Runs the ranks to their end and returns the process of mpirun."""
    return harness.run(
        command(mpirun, ranks, *arguments), expect=expect, env=environment(), timeout=100
    )


def require_exact_memory(mpirun, ranks, executable, flags):
    """Checks the memory plan of an executable that was compiled with the flags, on all ranks."""
    failures = harness.memory_failures(executable, flags, launcher=command(mpirun, ranks), env=environment())
    if failures:
        harness.fail("\n".join(failures))


def own_lines(text):
    """Returns the lines of stderr that are not messages of mpirun about exit codes."""
    lines = []
    is_own = True
    for line in text.splitlines():
        if line.startswith("-----"):
            is_own = not is_own
        elif is_own and line.strip():
            lines.append(line)
    return lines


def start(mpirun, ranks, *arguments):
    """Starts the ranks, and returns the process of mpirun."""
    started = command(mpirun, ranks, *arguments)
    harness.show(started)
    return subprocess.Popen(
        started,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def wait_for_steps(log, count, process):
    """Waits until the log has `count` steps."""
    log = pathlib.Path(log)
    end = time.monotonic() + 60
    while not log.exists() or log.read_bytes().count(b'{"step"') < count:
        if process.poll() is not None:
            harness.fail(f"the run ended before step {count}: {process.stderr.read()}")
        if time.monotonic() > end:
            harness.fail(f"step {count} was not reached within 60 s")
        time.sleep(0.01)


def processes_of(executable):
    """Returns the process of each rank of a running executable, in the order of the ranks."""
    executable = os.path.realpath(executable)
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.path.realpath(entry / "exe") != executable:
                continue
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in variables:
            name, _, value = variable.partition(b"=")
            if name == b"OMPI_COMM_WORLD_RANK":
                found[int(value)] = int(entry.name)
    return [found[rank] for rank in sorted(found)]
