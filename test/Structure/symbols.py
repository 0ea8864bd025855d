#!/usr/bin/env python3
# ===- symbols.py - Symbols with two definitions -----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""symbols.py (--build=DIR | --compiler=ARCHIVE... --runtime=ARCHIVE...)

Compares the symbols of the compiler's archives with those of the runtime's, so that one
program can link both. Prints each of these violations as one line:
  - Both sides define a symbol, unless it involves only types of kiln::support and kiln::abi,
    or no type of kiln (an instance of a template of the standard library).
  - A symbol of the compiler involves a type or function of kiln::runtime, or a symbol of the
    runtime involves a name of kiln outside of runtime, support and abi. layers.py checks
    that the files of each side open only their own namespaces, so every name that the sides
    do not share has one definition and one layout.
The exit code is 1 if there are any."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

COMPILER = ["Compiler", "Conversion", "CpuKernels", "Dialect", "GpuKernels", "Import", "KernelCode", "Planner", "RTDialect",
            "Report", "TargetInterface", "Transforms"]  # fmt: skip
RUNTIME = ["CudaRuntime", "Diff", "Emu", "EmuRuntime", "Files", "Runtime", "Training"]
# Both sides link this library, and it belongs to neither.
SHARED = ["Support"]
# Uses the runtime's training loop with the compiler's dialects, so it may use both.
BOTH = ["Interpreter"]
# Archives that user programs do not link.
OTHERS = ["StdPch", "Pch", "KernelPch", "TestPch", "KernelTestPch", "GTestPch", "ToyProgram", "EmuToyProgram",
          "CudaToyProgram"]  # fmt: skip

NM = shutil.which("llvm-nm") or shutil.which("nm")
SHARED_NAMES = ("support", "abi")


class Symbol:
    def __init__(self, kind, mangled):
        self.mangled = mangled
        self.isDefined = kind not in "Uwv"
        # Weak symbols are templates and inline functions; the linker keeps one definition.
        self.isWeak = kind in "WVu"


def symbols_of(archives):
    """Returns the symbols by mangled name; a definition takes precedence over a reference."""
    found = {}
    output = subprocess.run([NM, "--extern-only", "--no-sort", *map(str, archives)], capture_output=True, text=True, check=True)
    for line in output.stdout.splitlines():
        match = re.match(r"(?:[0-9a-f]+)? +([A-Za-z]) (\S+)$", line)
        if not match:
            continue
        symbol = Symbol(*match.groups())
        if symbol.isDefined or symbol.mangled not in found:
            found[symbol.mangled] = symbol
    return found


def demangled(names):
    names = sorted(names)
    filt = shutil.which("llvm-cxxfilt") or shutil.which("c++filt")
    output = subprocess.run([filt], input="\n".join(names) + "\n", capture_output=True, text=True, check=True)
    return dict(zip(names, output.stdout.splitlines()))


def kiln_names(text):
    """Returns the first component after kiln:: of each name of kiln."""
    return set(re.findall(r"(?<![\w:])kiln::(\w+)", text))


def violations(compiler, runtime):
    sides = symbols_of(compiler), symbols_of(runtime)
    texts = demangled(set(sides[0]) | set(sides[1]))
    shared = 0
    for name in sorted(set(sides[0]) & set(sides[1])):
        symbols = [side[name] for side in sides]
        if not all(symbol.isDefined for symbol in symbols):
            continue
        foreign = kiln_names(texts[name]) - set(SHARED_NAMES)
        if foreign or not any(symbol.isWeak for symbol in symbols):
            yield f"both define {texts[name]}"
        shared += 1
    for name in sorted(sides[0]):
        if "runtime" in kiln_names(texts[name]):
            yield f"the compiler names {texts[name]}"
    for name in sorted(sides[1]):
        if kiln_names(texts[name]) - {"runtime", *SHARED_NAMES}:
            yield f"the runtime names {texts[name]}"
    print(f"{len(sides[0])} symbols of the compiler, {len(sides[1])} of the runtime, {shared} instances in both")


def archives_of(build, parts):
    return [build / "lib" / f"libKiln{part}.a" for part in parts]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--compiler", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--runtime", type=pathlib.Path, nargs="+", default=[])
    arguments = parser.parse_args()
    found = []
    compiler, runtime = arguments.compiler, arguments.runtime
    if arguments.build:
        known = set(COMPILER + RUNTIME + SHARED + BOTH + OTHERS)
        for path in sorted((arguments.build / "lib").glob("libKiln*.a")):
            if path.stem.removeprefix("libKiln") not in known:
                found.append(f"{path.name} is of no side; add it to a list of symbols.py")
        compiler, runtime = archives_of(arguments.build, COMPILER), archives_of(arguments.build, RUNTIME)
    found += violations(compiler, runtime)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
