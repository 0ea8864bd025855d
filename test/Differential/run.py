#!/usr/bin/env python3
# ===- run.py - Random graphs at all levels and as executables ---------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compares the results of random graphs in f32 and f64.

    run.py --bin=DIR [--levels=N] [--executables=N] [--seed=N] [--long]

--levels: number of graphs that are interpreted after every pass (kiln-generate --check);
half as many graphs also check that the losses of micro-batches add up (--splits).
--executables: number of graphs that are compiled, whose ops are then all compared with the
interpreted ones (--check-ops and kiln-run --check-trace). A failing seed is printed with the
command that reproduces it.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

# Options of the compiled graphs, indexed by seed.
FLAGS = [
    ["--optimizer=sgd"],
    ["--optimizer=adamw", "--fuse=off"],
    ["--optimizer=momentum", "--clip=off"],
    ["--optimizer=adam", "--microbatches=2"],
    ["--optimizer=nesterov", "--max-threads=3"],
    ["--optimizer=adamw", "--recompute=full"],
    ["--optimizer=momentum", "--clip=off", "--microbatches=2", "--recompute=poor"],
    ["--optimizer=sgd", "--fuse=off", "--recompute=sqrt"],
    ["--optimizer=momentum", "--lossy=fewbit:2,rmm:0.5", "--rebuild=off"],
    ["--optimizer=sgd", "--lossy=fewbit:4,rmm:0.25", "--microbatches=2"],
]


def run(command, **options):
    return subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def check_levels(tools, kind, seed, count, *flags):
    result = run([tools / "kiln-generate", "--check", f"--type={kind}", f"--seed={seed}", f"--count={count}", *flags])
    print(result.stdout, end="", flush=True)
    return result.returncode == 0


def check_executable(tools, kind, seed, work):
    """Compiles one graph and compares all of its ops."""
    model, module = work / "graph.mlir", work / "scheduled.mlir"
    executable, trace = work / "train", work / "ops.trace"
    flags = FLAGS[seed % len(FLAGS)] + [f"--precision={'fp64' if kind == 'f64' else 'fp32'}"]
    batch = "--microbatches=2" in flags
    graph = run([tools / "kiln-generate", f"--type={kind}", f"--seed={seed}", *(["--splits"] if batch else [])])
    model.write_text(graph.stdout)
    if batch:
        # The whole batch of the graph is one micro-batch.
        size = int(graph.stdout.split("batch = ")[1].split(" ")[0])
        flags.append(f"--batch={2 * size}")
    commands = [
        [tools / "kilnc", model, *flags, "-o", executable],
        [tools / "kilnc", model, *flags, "--emit=schedule", "-o", module],
        [executable, f"--check-ops={trace}"],
        [tools / "kiln-run", module, f"--check-trace={trace}"],
    ]
    for command in commands:
        result = run(command)
        if result.returncode != 0:
            print(f"seed {seed} {kind}: {' '.join(map(str, command))} (exit {result.returncode})")
            bad = [line for line in result.stdout.splitlines() if not line.startswith("ok ")]
            print("\n".join(bad[-8:]), flush=True)
            return False
    return True


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--levels", type=int, default=200)
    parser.add_argument("--executables", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--long", action="store_true", default="KILN_LONG" in os.environ, help="2,000 graphs of each kind")
    arguments = parser.parse_args(argv)
    if arguments.long:
        arguments.levels = arguments.executables = 2000
    good = True
    for kind in ["f32", "f64"]:
        if arguments.levels:
            good &= check_levels(arguments.bin, kind, arguments.seed, arguments.levels)
            good &= check_levels(arguments.bin, kind, arguments.seed, arguments.levels // 2, "--splits")
        with tempfile.TemporaryDirectory() as work:
            seeds = range(arguments.seed, arguments.seed + arguments.executables)
            equal = sum(check_executable(arguments.bin, kind, seed, pathlib.Path(work)) for seed in seeds)
        if seeds:
            print(f"{equal} of {len(seeds)} compiled {kind} graphs compute what their ops do", flush=True)
        good &= equal == len(seeds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
