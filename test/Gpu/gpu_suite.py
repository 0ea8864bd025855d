#!/usr/bin/env python3
# ===- gpu_suite.py - Driver of the GPU suite --------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Runs the GPU suite from its bundle; see docs/design/gpu-suite.md.

    gpu_suite.py [--results=DIR] [--limit=SECONDS] [--only=PART,...] [--match=TEXT]
                 [--again] [--quick] [--dry-run=emu] [--list]

Each completed row is written to results.jsonl and results.md in the results folder. The
same command resumes a run that was interrupted, by --limit or otherwise. A failure is
recorded as a row. The exit code is 1 if a row is wrong, failed or timed out, and 0 if
all rows are ok or cannot run on this machine.
"""

import argparse
import datetime
import importlib
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from suite import machine, process  # noqa: E402
from suite.bundle import Bundle  # noqa: E402
from suite.context import Context, Outcome, Row  # noqa: E402
from suite.results import Results  # noqa: E402

# In execution order: parts on which others depend, then the most important
# ones.
PARTS = (
    "machine",
    "tests",
    "rates",
    "correctness",
    "kernels",
    "memory",
    "bench",
    "trace",
    "offload",
    "sanitizer",
)


def machine_rows(context):
    def facts():
        values = machine.facts()
        values["commit"] = context.bundle.commit
        values["bundle built"] = context.bundle.built
        values["PyTorch"] = context.torch or "none"
        if context.dry:
            values["gpu"] = "none: a dry run with emulated kernels"
        elif "gpu" not in values:
            command = [context.bundle.tool("kiln-gpu-rates"), "--copy-bytes=0", "--link-bytes=0"]
            values.update(json.loads(context.run(command).out.splitlines()[0]))
        return Outcome(values)

    yield Row("machine", facts, 60.0, 0.0)


def rows_of(context, part):
    if part == "machine":
        return list(machine_rows(context))
    return list(importlib.import_module(f"suite.part_{part}").rows(context))


def run_row(context, row, end):
    """Runs a row and returns (status, outcome); never raises an exception."""
    context.deadline = min(time.monotonic() + row.limit, end)
    try:
        outcome = row.function()
        return ("ok" if outcome.ok else "wrong"), outcome
    except process.TimedOut as reason:
        return "timeout", Outcome({}, False, note=str(reason))
    except process.NotRun as reason:
        return "not run", Outcome({}, True, note=str(reason))
    except process.Failed as reason:
        return "error", Outcome({}, False, note=str(reason))
    except subprocess.SubprocessError as reason:
        return "error", Outcome({}, False, note=str(reason))
    except Exception as reason:  # An error of the suite itself must not end the run.
        return "error", Outcome({}, False, note=f"{type(reason).__name__}: {reason}")


def run_part(context, part, options, end):
    """Runs the rows without a result; returns the number for which no time was left."""
    left = 0
    for row in rows_of(context, part):
        if options.match and options.match not in row.name:
            continue
        if context.results.has(part, row.name):
            continue
        if end - time.monotonic() < row.least:
            left += 1
            continue
        before, begin = machine.clocks(), time.monotonic()
        status, outcome = run_row(context, row, end)
        seconds = time.monotonic() - begin
        # A row that the end of the whole run interrupted is left to the next
        # run.
        if status == "timeout" and seconds < row.limit - 1:
            left += 1
            continue
        facts = context.results.of("machine")
        known = facts[0]["values"] if facts else {}
        context.results.add(
            {
                "part": part,
                "row": row.name,
                "status": status,
                "values": outcome.values,
                "wanted": outcome.wanted,
                "note": outcome.note,
                "command": context.portable(outcome.command),
                "seconds": round(seconds, 3),
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "commit": context.bundle.commit,
                "gpu": known.get("gpu", ""),
                "driver": known.get("driver", ""),
                "clocks_before": before,
                "clocks_after": machine.clocks(),
            }
        )
        mark = "" if status == "ok" else f": {outcome.note}"
        print(f"{status:8} {seconds:6.1f} s  {part}  {row.name}{mark}", flush=True)
    return left


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--limit", type=float, help="seconds after which no row is started")
    parser.add_argument("--only", help=f"comma-separated parts to run: {', '.join(PARTS)}")
    parser.add_argument("--match", help="run only rows whose name contains this text")
    flag = {"action": "store_true"}
    parser.add_argument("--again", **flag, help="repeat rows that failed or were not run")
    parser.add_argument("--dry-run", choices=["emu"], help="use the emulated GPU, no PyTorch")
    parser.add_argument("--quick", **flag, help="small sizes, to test the suite itself")
    parser.add_argument("--work", type=pathlib.Path, help="folder for large files (temporary)")
    parser.add_argument("--torch-device", choices=["cpu", "cuda"], help="for tests of the scripts")
    parser.add_argument("--bundle", type=pathlib.Path, default=HERE)
    parser.add_argument("--list", action="store_true", help="list the rows without running them")
    options = parser.parse_args()
    parts = options.only.split(",") if options.only else list(PARTS)
    for part in parts:
        if part not in PARTS:
            parser.error(f"--only: unknown part '{part}', expected one of {', '.join(PARTS)}")
    # The part "machine" always runs, since every row refers to its values.
    options.parts = [part for part in PARTS if part in parts or part == "machine"]
    return options


def main():
    options = parse()
    begin = time.monotonic()
    end = begin + options.limit if options.limit else float("inf")
    dry = options.dry_run == "emu"
    try:
        bundle = Bundle(options.bundle, device="emu" if dry else "cuda")
    except (OSError, ValueError, KeyError, TypeError, tarfile.TarError) as error:
        print(f"error: {options.bundle} is not a bundle of the GPU suite: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="gpu-suite-") as temporary:
        work = options.work or temporary
        context = Context(bundle, None, work, dry=dry, quick=options.quick)
        if options.list:
            for part in options.parts:
                for row in rows_of(context, part):
                    print(f"{part}  {row.name}")
            return 0
        context.results = Results(options.results, options.again)
        # The file of matmul algorithms is kept with the results, so that every
        # run computes the same bits.
        bundle.environment["XDG_CACHE_HOME"] = str((options.results / "cache").resolve())
        if not dry:
            context.torch, sees_gpu = machine.pytorch()
            context.torch_device = options.torch_device or ("cuda" if sees_gpu else "")
        left = sum(run_part(context, part, options, end) for part in options.parts)
    counts = context.results.counts()
    print(", ".join(f"{number} {status}" for status, number in sorted(counts.items())))
    print(f"{context.results.folder / 'results.md'}, {time.monotonic() - begin:.0f} s")
    if left:
        print(f"{left} rows are left: run the same command again")
    return 1 if any(counts.get(status) for status in ("wrong", "error", "timeout")) else 0


if __name__ == "__main__":
    sys.exit(main())
