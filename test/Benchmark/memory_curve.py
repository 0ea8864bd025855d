#!/usr/bin/env python3
# ===- memory_curve.py - Step time against memory, kiln and PyTorch ----------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Measures the training step of a model with several memory sizes.

    memory_curve.py --model=DIR --batch=4 --seq=256 --python=VENV/bin/python
                    [--budgets=2GB,1.9GB] [--peers=eager,checkpoint,selective,budget=0.5]
                    [--plot=FILE.svg] [--markdown=FILE]

Memory is the peak resident memory of a process. The libraries of PyTorch, which are loaded
before it builds the model, are not included; kiln's memory is the whole process. Steps are
interleaved with those of kiln without a budget; times are ratios to it, multiplied by its
median over the whole run, so that a drift of the machine cancels. At most --group sides are
resident at once.
"""

import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

import peer_step


class Point:
    """The time and the memory of a step."""

    def __init__(self, title, ours):
        self.title, self.ours = title, ours
        self.ratios, self.memory = [], 0.0


def compile_plan(options, flags, output):
    command = ["kilnc", options.model, f"--batch={options.batch}", f"--seq={options.seq}"]
    command += [f"--max-threads={options.threads}", *shlex.split(options.common), *flags]
    subprocess.run([*map(str, command), "-o", output], check=True, stdout=subprocess.DEVNULL)


def run_group(reference, group, options, work):
    """Measures (point, function that starts its side) beside kiln without a budget."""
    first = peer_step.Kiln(work / "none", options, work)
    sides = []
    try:
        for point, start in group:
            sides.append((point, start()))
        for number in range(options.rounds):
            first.run(options.steps)
            base = statistics.median(first.last)
            reference.append(base)
            for point, side in sides:
                side.run(options.steps)
                point.ratios.append(statistics.median(side.last) / base)
                print(f"round {number + 1}: {point.title} {side.last}", file=sys.stderr)
    finally:
        first.close()
        for point, side in sides:
            side.close()
            point.memory = side.peak - getattr(side, "libraries", 0)


def draw(points, path, title):
    """Draws an SVG of time over memory, with kiln's points joined and PyTorch's labelled."""
    left, right, top, bottom = 70, 700, 30, 400
    most_memory = 1.05 * max(p.memory for p in points)
    most_time = 1.1 * max(p.ms for p in points)

    def x(memory):
        return round(left + (right - left) * memory / most_memory, 1)

    def y(ms):
        return round(bottom - (bottom - top) * ms / most_time, 1)

    def text(at_x, at_y, words, anchor="middle", extra=""):
        return f'<text x="{at_x}" y="{at_y}" text-anchor="{anchor}" {extra}>{words}</text>'

    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 460"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="720" height="460" fill="white"/>',
        text(left, 18, title, "start"),
        text((left + right) / 2, 445, "peak memory, MiB"),
        text(0, 0, "step, ms", extra='transform="translate(16 215) rotate(-90)"'),
    ]
    for i in range(6):
        memory, ms = most_memory * i / 5, most_time * i / 5
        out.append(text(x(memory), bottom + 20, f"{memory:.0f}"))
        out.append(text(left - 8, y(ms) + 4, f"{ms:.0f}", "end"))
        out.append(f'<path d="M{left} {y(ms)}H{right}" stroke="#ddd"/>')
    ours = sorted((p for p in points if p.ours), key=lambda p: p.memory)
    line = " ".join(f"{x(p.memory)},{y(p.ms)}" for p in ours)
    out.append(f'<polyline points="{line}" fill="none" stroke="#0a6" stroke-width="2"/>')
    for p in points:
        color = "#0a6" if p.ours else "#c40"
        out.append(f'<circle cx="{x(p.memory)}" cy="{y(p.ms)}" r="4" fill="{color}"/>')
        if not p.ours:
            out.append(text(x(p.memory) - 8, y(p.ms) + 4, p.title, "end"))
    if ours:
        out.append(text(x(ours[0].memory), y(ours[0].ms) - 10, "kiln", extra='fill="#0a6"'))
    out.append("</svg>")
    path.write_text("\n".join(out) + "\n")


def table(points, options):
    rows = [
        f"B={options.batch}, T={options.seq}, {options.threads} threads, `{options.common}`",
        "",
        "| | peak memory, MiB | step, ms |",
        "|---|---|---|",
    ]
    rows += [f"| {p.title} | {p.memory:.0f} | {p.ms:.0f} |" for p in points]
    return "\n".join(rows) + "\n"


def main():
    parser = peer_step.make_parser(__doc__.splitlines()[0], batch=4, seq=256, rounds=3)
    parser.add_argument("--common", default="--clip=off --dropout=0 --eval=off")
    parser.add_argument("--budgets", default="", help="kiln's, with commas between")
    parser.add_argument("--peers", default="eager,checkpoint,selective,compiled,budget=0.5")
    parser.add_argument("--python", default="python3", help="an interpreter with PyTorch")
    parser.add_argument("--openblas", help="for eager-openblas")
    parser.add_argument("--group", type=int, default=2, help="sides that are resident")
    parser.add_argument("--plot", type=pathlib.Path)
    options = peer_step.parse(parser)
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        compile_plan(options, [], work / "none")
        sides = [(Point("kiln", True), lambda: peer_step.Kiln(work / "none", options, work))]
        for budget in filter(None, options.budgets.split(",")):
            path = work / budget
            compile_plan(options, [f"--memory-budget={budget}"], path)
            start = lambda path=path: peer_step.Kiln(path, options, work)  # noqa: E731
            sides.append((Point(f"kiln, {budget}", True), start))
        for peer in filter(None, options.peers.split(",")):
            start = lambda peer=peer: peer_step.Peer(peer, options)  # noqa: E731
            sides.append((Point(f"PyTorch {peer}", False), start))
        reference = []
        for i in range(0, len(sides), options.group):
            run_group(reference, sides[i : i + options.group], options, work)
    points = [point for point, _ in sides]
    for point in points:
        point.ms = statistics.median(point.ratios) * statistics.median(reference)
    peer_step.show(table(points, options), options)
    if options.plot:
        draw(points, options.plot, f"{options.model.name}, B={options.batch}, T={options.seq}")


if __name__ == "__main__":
    main()
