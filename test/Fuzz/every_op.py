#!/usr/bin/env python3
# ===- every_op.py - Every op with a missing part ----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""every_op.py KILN-OPT WORK FILE...: for each kind of op of both dialects and for each set
of optional attributes that occurs in the files, removes one part of the op in the generic
form, which the parser does not check: its regions or their contents, each attribute, each
operand, or the types of an operand or result. The verifier must not crash on such an op. The
files must contain every op."""

import pathlib
import re
import subprocess
import sys

from mutate import brackets_of

OPT, WORK = sys.argv[1], pathlib.Path(sys.argv[2])
OP = re.compile(r'^ *(?:%\w+(?::\d+)? = )?"(kiln(?:rt)?\.\w+)"(\([^()\n]*\))(?: <(\{.*?\})>)?(?= |$)', re.M)
REGIONS = ["({})", "({^bb0:})", "", "({}, {})", "({^bb0(%lost: f32):})", '({^bb0: "builtin.module"() ({}) : () -> () })']


def properties_of(text):
    """Returns the entries of a dictionary, split at commas outside of brackets."""
    entries, depth, begin = [], 0, 1
    for i, character in enumerate(text):
        depth += (character in "<{([") - (character in ">})]")
        if (depth == 1 and character == ",") or depth == 0:
            entries.append(text[begin:i].strip())
            begin = i + 1
    return [entry for entry in entries if entry]


def variants_of(text, match):
    def put(begin, end, new):
        return text[:begin] + new + text[end:]

    if match.group(3):
        begin, end = match.span(3)
        entries = properties_of(match.group(3))
        yield put(begin - 2, end + 1, "")
        for entry in entries:
            name = entry.split(" = ")[0]
            others = [other for other in entries if other != entry]
            yield put(begin, end, "{" + ", ".join(others) + "}")
            for value in ("unit", "-1 : i64", "@none", "[]", "[unit]", "array<i64>", "memref<0x?xf32, strided<[?, 2]>>"):
                yield put(begin, end, "{" + ", ".join([*others, f"{name} = {value}"]) + "}")
    begin, end = match.span(2)
    operands = [name for name in match.group(2)[1:-1].split(", ") if name]
    line_end = text.index("\n", match.end())
    types = re.compile(r" : \(([^()]*)\) -> (.*)$").search(text, match.end(), line_end)
    if types and operands:
        listed = re.findall(r"[^,<]+(?:<[^>]*>)?(?=, |$)", types.group(1))
        for kept in ([], operands[:-1], operands[1:], operands + operands[-1:]):
            kinds = [listed[operands.index(name)] for name in kept] if len(listed) == len(operands) else []
            yield put(types.start(1), types.end(1), ", ".join(kinds))[:begin] + "(" + ", ".join(kept) + ")" + put(
                types.start(1), types.end(1), ", ".join(kinds)
            )[end:]
    if types and types.group(2) != "()":
        for other in ("f32", "tensor<f32>", "tensor<*xf32>", "!kilnrt.slot", "!kilnrt.place", "!kilnrt.token"):
            yield put(types.start(2), types.end(2), re.sub(r"tensor<[^>]*>|!kilnrt.\w+", other, types.group(2)))
    if text.startswith(" ({", match.end()):
        opening = match.end() + 2
        closing = next(e for b, e in brackets_of(text, "{", "}") if b == opening)
        for region in REGIONS:
            yield put(match.end() + 1, closing + 1, region)


def modules_of(text):
    """Returns one copy of the module per program, which contains only that program and the
    ops that programs refer to."""
    lines = text.split("\n")
    ends = [i for i, line in enumerate(lines) if line.startswith("  }) ")]
    programs = []
    for i, line in enumerate(lines):
        if re.match(r'  "kiln(rt)?\.program"', line):
            programs.append((i, next(end for end in ends if end >= i) + 1))
    for begin, end in programs or [(0, 0)]:
        others = [p for p in programs if p != (begin, end)]
        yield "\n".join(line for i, line in enumerate(lines) if not any(b <= i < e for b, e in others))


def run(path):
    command = [OPT, str(path), "--split-input-file", "--verify-each=false", "-o", "/dev/null"]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    seen, variants = set(), []
    for file in map(pathlib.Path, sys.argv[3:]):
        done = subprocess.run([OPT, file, "--mlir-print-op-generic"], check=True, stdout=subprocess.PIPE, text=True)
        for text in modules_of(done.stdout):
            for match in OP.finditer(text):
                name = match.group(1)
                attributes = properties_of(match.group(3)) if match.group(3) else []
                kind = (name, *(attribute.split(" = ")[0] for attribute in attributes))
                if kind not in seen:
                    seen.add(kind)
                    variants += [(name, variant) for variant in variants_of(text, match)]
    failed = 0
    for begin in range(0, len(variants), 250):
        batch = variants[begin : begin + 250]
        path = WORK / "batch.mlir"
        path.write_text("\n// -----\n".join(variant for _, variant in batch))
        if run(path) in (0, 1):
            continue
        for i, (name, variant) in enumerate(batch, begin):
            alone = WORK / f"{name}-{i}.mlir"
            alone.write_text(variant)
            if (code := run(alone)) in (0, 1):
                alone.unlink()
            else:
                failed += 1
                print(f"{name}: exit code {code}: {alone}")
    print(f"{len(set(name for name, *_ in seen))} ops, {len(variants)} variants, {failed} crash")
    return 1 if failed else 0


sys.exit(main())
