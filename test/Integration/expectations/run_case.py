#!/usr/bin/env python3
# ===- run_case.py - Compile, train and compare one case ---------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Compiles a case's model, trains it, and compares with the expectation.

    run_case.py CASE --kilnc=PATH [--precision=fp32|fp64|bf16|fp16]... [--work=DIR]
                [--interpreter=PATH] [--compile-flag=F]... [--run-flag=F]...
                [--tolerance=--loss-rtol=X]...

Additional compile flags may enable any technique that preserves the training results,
because the expectation does not change. Every micro-batch count of the case is run in every
given precision. With --interpreter, the step graph is interpreted instead of compiled. Only
the standard library is used.
"""

import argparse
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import compare
import make_weights

HERE = pathlib.Path(__file__).resolve().parent


# Tolerances of each precision; compare.py defines their meaning. Those of bf16 and fp16 are
# multiples of the error of PyTorch's own mixed precision. Weights are not compared then, because an
# optimizer that divides by the magnitude of a gradient amplifies uncertainty about its sign.
TOLERANCES = {
    "bf16": None,
    "fp16": None,
    "fp32": [],
    "fp64": [
        "--loss-rtol=1e-10",
        "--gradient-rtol=1e-10",
        "--weight-rtol=1e-9",
        "--floor=1e-13",
    ],
}


def run(command):
    print("+ " + shlex.join(map(str, command)), flush=True)
    return subprocess.run(command, stdout=subprocess.DEVNULL).returncode


def trainer(case, arguments, work, microbatches, precision):
    """Returns the command that trains, an executable or the interpreter, or None."""
    flags = [*case["compile_flags"], f"--microbatches={microbatches}", "--emit-gradients"]
    flags.append(f"--precision={precision}")
    if arguments.interpreter:
        flags += ["--emit=step", "-o", work / "step.mlir"]
        command = [arguments.interpreter, work / "step.mlir"]
    else:
        flags += ["-o", work / "train"]
        command = [work / "train"]
    model = HERE.parent / "models" / case["model"]
    if run([arguments.kilnc, model, *flags, *arguments.compile_flag]):
        return None
    return command


def tolerances(case, precision):
    if TOLERANCES[precision] is not None:
        return TOLERANCES[precision]
    error = case[f"pytorch_{precision}_error"]
    return [
        f"--loss-rtol={2 * error['loss']}",
        f"--gradient-rtol={2 * max(error['gradient'], error['grad_norm'])}",
        f"--floor={2 * error['gradient'] * error['floor']}",
    ]


def run_once(case, name, arguments, work, microbatches, precision):
    """Runs one micro-batch count and precision in a separate directory."""
    inputs = work.parent
    work.mkdir()
    command = trainer(case, arguments, work, microbatches, precision)
    if not command:
        return 1
    outputs = {
        "log": "log.jsonl",
        "dump-gradients": "gradients.safetensors",
        "save": "saved",
    }
    command += [f"--data={inputs / 'train.bin'}"]
    command += [f"--val-data={inputs / 'validation.bin'}"]
    if "lora" in case:
        command += [f"--adapter={inputs / 'adapter'}", f"--base={inputs / 'model.safetensors'}"]
    else:
        command += [f"--init={inputs / 'model.safetensors'}"]
    command += case["run_flags"]
    if precision == "fp16":
        command.append("--loss-scale=1024")  # As in generate.py.
    command += [f"--{flag}={work / file}" for flag, file in outputs.items()]
    if run(command + arguments.run_flag):
        return 1
    return compare.main(
        [
            str(HERE / "cases" / f"{name}.json"),
            f"--log={work / outputs['log']}",
            f"--gradients={work / outputs['dump-gradients']}",
            *([f"--weights={work / outputs['save']}"] if TOLERANCES[precision] is not None else []),
            *tolerances(case, precision),
            *arguments.tolerance,
        ]
    )


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", help="a name in cases/, without .json")
    parser.add_argument("--kilnc", required=True)
    parser.add_argument("--interpreter", help="kiln-run: interpret the step graph")
    parser.add_argument("--precision", action="append", choices=list(TOLERANCES))
    parser.add_argument("--work", help="kept; a temporary directory unless given")
    parser.add_argument("--compile-flag", action="append", default=[])
    parser.add_argument("--run-flag", action="append", default=[])
    parser.add_argument("--tolerance", action="append", default=[])
    arguments = parser.parse_args(argv)
    file = HERE / "cases" / f"{arguments.case}.json"
    if not file.exists():
        print(f"run_case.py: no case '{arguments.case}' in {file.parent}", file=sys.stderr)
        return 2
    case = json.loads(file.read_text())
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(arguments.work or temporary) / arguments.case
        shutil.rmtree(work, ignore_errors=True)
        made = [str(HERE.parent / "models" / case["model"]), str(work)]
        if make_weights.main(made + ([case["lora"]] if "lora" in case else [])):
            return 2
        codes = [
            run_once(case, arguments.case, arguments, work / f"{precision}-{n}", n, precision)
            for precision in arguments.precision or ["fp32"]
            for n in case["microbatches"]
        ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
