#!/usr/bin/env python3
# ===- longest_sequence.py - Longest sequence that fits a budget ---------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Searches for the longest sequence for which a model fits a memory budget.

    longest_sequence.py --kilnc=FILE --model=DIR --flags="--target=cuda --machine=h100 --memory-budget=7.4GB"
                        [--least=1024] [--most=131072] [--multiple=64] [--markdown=FILE]
                        ["f32 moments" "8-bit moments: --states=moments:dynamic8" ...]

Nothing is executed: kilnc plans a step of one sequence. For each variant, "name: flags" or a name
alone, the length is bisected among the multiples of --multiple from --least to --most. The table
also shows the longest sequence that fits within --limit times the time of a step that needs no
budget, if --limit is given.
"""

import re
import tempfile

from planned import argument_parser, plan


def searched(fits, least, most):
    """Returns the largest number from least to most that fits, if all smaller ones fit, or None."""
    if not fits(least):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


class Variant:
    def __init__(self, text, options, work):
        self.name, _, self.flags = text.partition(":")
        self.options, self.work, self.plans = options, work, {}

    def at(self, number):
        """Returns the plan for a sequence of `number` multiples, or None if none fits."""
        if number not in self.plans:
            length = number * self.options.multiple
            made, note = plan(self.options, self.work, *self.flags.split(), "--batch=1", f"--seq={length}")
            if made is None and "does not fit" not in note:
                raise SystemExit(f"longest_sequence.py: {note.strip()}")
            shown = f"{made['predicted_step_ms']:.0f} ms, planned in {note:.0f} s" if made else "does not fit"
            print(f"{self.name}: {length}: {shown}", flush=True)
            self.plans[number] = made
        return self.plans[number]

    def is_fast(self, number):
        made = self.at(number)
        return made and made["predicted_step_ms"] <= self.options.limit * made["unplanned_step_ms"]


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--least", type=int, default=1024)
    parser.add_argument("--most", type=int, default=131072)
    parser.add_argument("--multiple", type=int, default=64)
    parser.add_argument("--limit", type=float)
    parser.add_argument("variants", nargs="*", default=["default"])
    options = parser.parse_args()
    least, most = -(-options.least // options.multiple), options.most // options.multiple
    heading = "| variant | longest sequence | arena | host | step |"
    rows = [heading, re.sub(r"[^|]+", " --- ", heading)]
    with tempfile.TemporaryDirectory() as work:
        for text in options.variants:
            variant = Variant(text, options, work)
            longest = searched(lambda number: variant.at(number) is not None, least, most)
            found = [(variant.name, longest)]
            if options.limit and longest:
                fast = searched(variant.is_fast, least, longest)
                found.append((f"{variant.name}, at most {options.limit:g} x the time without a budget", fast))
            for name, number in found:
                if number is None:
                    rows.append(f"| {name} | none from {options.least} on | | | |")
                    continue
                made = variant.at(number)
                arena, host = made["device_arena_bytes"] / 1e9, made["host_arena_bytes"] / 1e9
                ratio = made["predicted_step_ms"] / made["unplanned_step_ms"]
                rows.append(
                    f"| {name} | {number * options.multiple} | {arena:.3f} GB | {host:.2f} GB "
                    f"| {made['predicted_step_ms']:.0f} ms, {ratio:.2f} x |"
                )
    table = "\n".join(rows) + "\n"
    print(table)
    if options.markdown:
        options.markdown.write_text(table)


main()
