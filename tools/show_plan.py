#!/usr/bin/env python3
# ===- show_plan.py - Memory plan as a table ---------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Prints the memory plan that `kilnc --emit=plan` writes.

    kilnc MODEL --emit=plan | show_plan.py [--buffers=N]

For each buffer class, the table shows its bytes at the time of peak memory use, and
the total size of its buffers, which share the arena over time. With --buffers=N, it
also lists the N largest buffers.
"""

import argparse
import json
import sys


ORDER = ["parameters", "optimizer", "gradients", "activations", "workspace", "communication", "input", "output"]


def size(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    if count < 1024**2:
        return f"{count / 1024:.1f} KiB"
    return f"{count / 1024**2:.1f} MiB"


def show(plan: dict, largest: int) -> None:
    print(f"  {'class':<14}{'at the peak':>14}{'in total':>14}")
    classes = [*ORDER, *sorted(set(plan["declared"]) - set(ORDER))]
    for name in classes:
        declared = plan["declared"].get(name, 0)
        if declared:
            print(f"  {name:<14}{size(plan['by_class'].get(name, 0)):>14}{size(declared):>14}")
    peak = plan["predicted_peak_bytes"]
    print(f"  {'arena':<14}{size(peak):>14}{'':>6}= {peak:,} bytes, of which states {plan['state_bytes']:,}")
    if host := plan["host_arena_bytes"]:
        copied = [size(plan[f"copied_{way}_bytes_per_step"]) for way in ("out", "in")]
        print(f"  {'host':<14}{size(host):>14}{'':>6}= {host:,} bytes; a step copies {copied[0]} there, {copied[1]} back")
    for name, program in plan["programs"].items():
        print(f"  @{name:<13}{size(program['height']):>14}{'':>6}{program['commands']} commands")
    if largest:
        print(f"\n  {'largest buffers':<44}{'class':<12}{'bytes':>12}{'offset':>12}  lives")
    for buffer in sorted(plan["buffers"], key=lambda b: -b["bytes"])[:largest]:
        print(
            f"  {buffer['name'][:42]:<44}{buffer['class']:<12}{buffer['bytes']:>12}{buffer['offset']:>12}"
            f"  {buffer['first']}-{buffer['last']}{' on the host' if buffer.get('arena') == 'host' else ''}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--buffers", type=int, default=0, metavar="N", help="also show the N largest buffers")
    options = parser.parse_args()
    try:
        plan = json.load(sys.stdin)
    except json.JSONDecodeError as error:
        sys.exit(f"show_plan.py: standard input is not a plan of kilnc --emit=plan: {error}")
    show(plan, options.buffers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
