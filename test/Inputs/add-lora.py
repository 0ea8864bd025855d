#!/usr/bin/env python3
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds low-rank adapters to a forward graph (LoRA, arXiv 2106.09685).

Reads a module written by `kilnc --emit=forward` from standard input, freezes
its parameters, and replaces every matmul y = x w^T of a parameter in a layer by
y = x w^T + alpha / r (x a^T) b^T. Writes the new module to standard output.
"""

import argparse
import re
import sys

STATE = re.compile(r"^  kiln\.state @(\S+) : ")
READ = re.compile(r"^    (%\w+) = kiln\.read @(\S+) : (tensor<\S+>)")
MATMUL = re.compile(
    r"^    (?P<y>%\w+) = kiln\.matmul (?P<x>%\w+), (?P<w>%\w+) (?P<trans>trans_b )?\{kiln\.layer = (?P<layer>#\w+)\} : "
    r"\((?P<xt>tensor<\S+>), (?P<wt>tensor<\S+>)\) -> (?P<yt>tensor<\S+>)(?P<loc>.*)$")


def shape(text):
    *sizes, element = text[len("tensor<"):-1].split("x")
    return [int(size) for size in sizes], element


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--alpha", type=float, default=16.0)
    args = parser.parse_args()
    lines = sys.stdin.read().split("\n")
    reads = {}
    states, body = [], []
    for line in lines:
        if STATE.match(line) and "#kiln.role<parameter>" in line:
            line = line.replace("init = ", "frozen, init = ", 1)
        if found := READ.match(line):
            reads[found[1]] = found[2]
        found = MATMUL.match(line)
        if not found or found["w"] not in reads:
            body.append(line)
            continue
        y, x, layer, yt, loc = (found[key] for key in ("y", "x", "layer", "yt", "loc"))
        name = reads[found["w"]].removesuffix(".weight")
        (rows, inputs), element = shape(found["xt"])
        outputs = shape(yt)[0][1]
        rank = args.rank
        a, b = (f"tensor<{rank}x{inputs}x{element}>", f"tensor<{outputs}x{rank}x{element}>")
        small = f"tensor<{rows}x{rank}x{element}>"
        states.append(f"  kiln.state @{name}.lora_A : {a} {{init = #kiln.normal<mean = 0.0, stddev = 2.0e-02>, role = #kiln.role<parameter>}}")
        states.append(f"  kiln.state @{name}.lora_B : {b} {{init = #kiln.splat<value = 0.0>, role = #kiln.role<parameter>}}")
        new = f"%lora{len(states) // 2}"
        mark = f"{{kiln.layer = {layer}}}"
        body += [
            f"    {new}_a = kiln.read @{name}.lora_A : {a}",
            f"    {new}_b = kiln.read @{name}.lora_B : {b}",
            f"    {new}_x = kiln.matmul {x}, {new}_a trans_b {mark} : ({found['xt']}, {a}) -> {small}{loc}",
            f"    {new}_s = kiln.scale {new}_x by {args.alpha / rank} {mark} : {small}{loc}",
            f"    {new}_y = kiln.matmul {new}_s, {new}_b trans_b {mark} : ({small}, {b}) -> {yt}{loc}",
            f"    {y} = kiln.matmul {x}, {found['w']} accumulate {new}_y {found['trans'] or ''}{mark} : "
            f"({found['xt']}, {found['wt']}, {yt}) -> {yt}{loc}",
        ]
    if not states:
        sys.exit("add-lora.py: the graph has no matmul of a parameter in a layer")
    program = next(i for i, line in enumerate(body) if line.startswith("  kiln.program"))
    print("\n".join(body[:program] + states + body[program:]))


if __name__ == "__main__":
    main()
