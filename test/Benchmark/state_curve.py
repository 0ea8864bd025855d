#!/usr/bin/env python3
# ===- state_curve.py - Predicted step time against memory --------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Plans a model for many memory budgets, and draws the predicted time of a step.

    state_curve.py --kilnc=FILE --model=DIR --flags="--target=cuda --machine=h200 --batch=1 --seq=8192"
                   [--budgets=40] [--markdown=FILE] [--plot=FILE.svg]

The budgets are evenly spaced in their logarithm, from the smallest feasible one to the arena
of the plan without a budget. Nothing is executed: times are those of the machine file. Two
plans without a budget are drawn beside the curve: with the optimizer on the host, as
ZeRO-Offload, and with everything on the host that can be.
"""

import pathlib
import tempfile

from planned import argument_parser, plan, smallest_budget, spaced


def draw(points, marks, whole, path, title):
    """Draws an SVG of the time over the budget, with logarithmic axes."""
    import math

    left, right, top, bottom = 70, 700, 40, 400
    sizes = [p[0] for p in points] + [m[0] for m in marks]
    times = [p[1] for p in points] + [p[2] for p in points] + [m[1] for m in marks]
    low, high = math.log(min(sizes)), math.log(max(sizes))
    fast, slow = math.log(min(times)), math.log(max(times))

    def x(size):
        return round(left + (right - left) * (math.log(size) - low) / (high - low), 1)

    def y(ms):
        return round(bottom - (bottom - top) * (math.log(ms) - fast) / (slow - fast), 1)

    def line(values, style):
        return f'<polyline points="{" ".join(f"{x(a)},{y(b)}" for a, b in values)}" fill="none" {style}/>'

    def text(at_x, at_y, words, anchor="middle"):
        return f'<text x="{at_x}" y="{at_y}" text-anchor="{anchor}">{words}</text>'

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="740" height="450" font-family="sans-serif" font-size="12">',
        '<rect width="740" height="450" fill="white"/>',
        text(370, 20, title),
        line([(p[0], p[1]) for p in points], 'stroke="#0b62a4" stroke-width="2"'),
        line([(p[0], p[2]) for p in points], 'stroke="#888" stroke-dasharray="4 3"'),
        text(x(points[len(points) // 2][0]), y(points[len(points) // 2][2]) + 18, "lower bound"),
    ]
    parts += [f'<circle cx="{x(p[0])}" cy="{y(p[1])}" r="2.5" fill="#0b62a4"/>' for p in points]
    for size, ms, name in marks:
        parts.append(f'<rect x="{x(size) - 4}" y="{y(ms) - 4}" width="8" height="8" fill="#c0392b"/>')
        parts.append(text(x(size) + 8, y(ms) - 6, name, "start" if x(size) < 500 else "end"))
    size = 2 ** math.ceil(math.log2(min(sizes) / 2**30))
    while size * 2**30 <= max(sizes):
        parts.append(text(x(size * 2**30), bottom + 20, f"{size} GiB"))
        size *= 2
    ms = 10 ** math.ceil(math.log10(min(times)))
    for tick in [step * 10**power for power in range(1, 6) for step in (1, 2, 5)]:
        if min(times) <= tick <= max(times):
            parts.append(text(left - 6, y(tick) + 4, f"{tick:g} ms" if tick < 1000 else f"{tick / 1000:g} s", "end"))
    parts.append("</svg>\n")
    path.write_text("\n".join(parts))


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--budgets", type=int, default=40)
    parser.add_argument("--plot", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        whole, _ = plan(options, work)
        floor, most = smallest_budget(options, work), whole["device_arena_bytes"]
        points, rows = [], ["| budget | ms per step | bound | gap | host memory | planning |", "|---|---|---|---|---|---|"]
        for budget in spaced(floor, most, options.budgets):
            found, seconds = plan(options, work, f"--memory-budget={budget}B")
            if found is None:
                raise SystemExit(f"{budget} bytes: {seconds}")
            ms, bound = found["predicted_step_ms"], found["lower_bound_ms"]
            points.append((budget, ms, bound))
            rows.append(
                f"| {budget / 2**30:.2f} GiB | {ms:.1f} | {bound:.1f} | {100 * (ms / bound - 1):.1f} % "
                f"| {found['host_arena_bytes'] / 2**30:.1f} GiB | {seconds:.1f} s |"
            )
            print(rows[-1], flush=True)
        marks = []
        for name, flags in (
            ("ZeRO-Offload", "--offload=optimizer"),
            ("everything on the host", "--offload=activations,optimizer,parameters"),
        ):
            found, _ = plan(options, work, flags)
            marks.append((found["device_arena_bytes"], found["predicted_step_ms"], name))
            rows.append(f"| {name}: {marks[-1][0] / 2**30:.2f} GiB | {marks[-1][1]:.1f} | | | {found['host_arena_bytes'] / 2**30:.1f} GiB | |")
            print(rows[-1], flush=True)
    ratios = [points[i][1] / points[i + 1][1] for i in range(len(points) - 1)]
    print(f"largest ratio of neighbours: {max(ratios):.3f}; a larger budget is slower by at most {1 / min(ratios):.4f}")
    if options.markdown:
        options.markdown.write_text("\n".join(rows) + "\n")
    if options.plot:
        draw(points, marks, whole, options.plot, "Predicted time of a step against the memory budget")


if __name__ == "__main__":
    main()
