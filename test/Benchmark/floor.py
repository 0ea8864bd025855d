#!/usr/bin/env python3
# ===- floor.py - Additive floor of a GPT-2 step -----------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Computes the additive floor of a training step from rates measured in the same run.

    floor.py --blas=LIB [--kind=cblas|dnnl] [--batch=4 --seq=64 --threads=2]
             [--step-ms=X] [--markdown=FILE]

The floor is the sum of
  products     the time of each of the step's GEMMs, measured with gemm_bench on the
               same BLAS and threads, times its number of occurrences
  attention    the causal half of its matmuls, at the mean rate of the above
  elementwise  the traffic of fused kernels, at the copy rate
  classifier   logits written, read with their gradient, and read again
  AdamW        28 bytes per parameter, at the copy rate
The fused traffic per token and layer, in rows of the model's width, is: two residual
additions with norm 8 forward and 8 backward, attention 4 and 8, the saved pre-activation 4
and 4, and bias gradients 9. The copy rate is the mean of measurements before and after the
GEMMs.
"""

import argparse
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROWS_PER_LAYER = 8 + 8 + 4 + 8 + 4 + 4 + 9


def products(c, tokens):
    """Returns the GEMMs of a step as (name, transA, transB, m, n, k, count), row-major."""
    width = c["n_embd"]
    inner = c.get("n_inner") or 4 * width
    layers = c["n_layer"]
    linears = {
        "attn.c_attn": (width, 3 * width),
        "attn.c_proj": (width, width),
        "mlp.c_fc": (width, inner),
        "mlp.c_proj": (inner, width),
    }
    for name, (rows, columns) in linears.items():  # Weights are stored as [in, out].
        yield name + ".forward", 0, 0, tokens, columns, rows, layers
        yield name + ".input-gradient", 0, 1, tokens, rows, columns, layers
        yield name + ".weight-gradient", 1, 0, rows, columns, tokens, layers
    vocab = c["vocab_size"]  # The weight of the classifier is stored as [vocabulary, width].
    yield "classifier.forward", 0, 1, tokens, vocab, width, 1
    yield "classifier.input-gradient", 0, 0, tokens, width, vocab, 1
    yield "classifier.weight-gradient", 1, 0, vocab, width, tokens, 1


def parameter_count(c):
    width = c["n_embd"]
    inner = c.get("n_inner") or 4 * width
    matrices = 4 * width * width + 2 * width * inner
    vectors = 4 * width + 3 * width + width + inner + width
    embeddings = (c["vocab_size"] + c["n_positions"]) * width
    return c["n_layer"] * (matrices + vectors) + embeddings + 2 * width


def build(work):
    compiler = os.environ.get("CC", "cc")
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
    for name in ("gemm_bench", "copy_bench"):
        source = HERE / f"{name}.c"
        command = [compiler, *flags, source, "-o", work / name, "-ldl", "-lm"]
        subprocess.run(list(map(str, command)), check=True)


def rows_of(command, threads, **extra):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    command = list(map(str, command))
    done = subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, env=environment, **extra
    )
    return list(csv.DictReader(io.StringIO(done.stdout)))


def copy_rate(work, threads):
    rates = rows_of([work / "copy_bench"], threads)
    return next(float(row["median_gbs"]) for row in rates if row["kernel"] == "copy")


def measure(options, config, tokens):
    """Returns (milliseconds of all GEMMs, copy rate in GB/s, disturbed GEMMs)."""
    shapes = list(products(config, tokens))
    lines = "".join(" ".join(map(str, shape[:6])) + "\n" for shape in shapes)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        build(work)
        before = copy_rate(work, options.threads)
        command = [work / "gemm_bench", "-r", options.samples, "-q", options.quiet]
        command.append(f"{options.kind}:{options.blas}")
        rows = rows_of(command, options.threads, input=lines)
        after = copy_rate(work, options.threads)
    pairs = list(zip(rows, shapes))
    total = sum(float(row["median_ms"]) * shape[6] for row, shape in pairs)
    disturbed = sum(int(row["samples"]) < options.samples for row in rows)
    return total, (before + after) / 2, disturbed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blas", required=True, help="the executable's own library")
    parser.add_argument("--kind", default="cblas", help="entry point, as in gemm_bench")
    default = HERE.parent / "Integration/models/gpt2-124m"
    parser.add_argument("--model", type=pathlib.Path, default=default)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--quiet", type=float, default=0.08, help="CPUs others may use")
    parser.add_argument("--step-ms", type=float, help="a measured step, to divide by it")
    parser.add_argument("--markdown", type=pathlib.Path, help="append the table to it")
    options = parser.parse_args()
    config = json.loads((options.model / "config.json").read_text())
    tokens = options.batch * options.seq
    products_ms, rate, disturbed = measure(options, config, tokens)

    width, layers = config["n_embd"], config["n_layer"]
    flops = sum(
        2.0 * m * n * k * often for _, _, _, m, n, k, often in products(config, tokens)
    )
    attention = 12.0 * layers * width * options.seq * tokens / 2
    gflops = flops / products_ms * 1e-6
    traffic = {
        "elementwise": 4.0 * ROWS_PER_LAYER * width * layers * tokens,
        "classifier": 4.0 * 3 * config["vocab_size"] * tokens,
        "AdamW": 28.0 * parameter_count(config),
    }
    parts = {"products": products_ms, "attention": attention / gflops * 1e-6}
    parts.update({name: size / rate * 1e-6 for name, size in traffic.items()})
    total = sum(parts.values())
    header = f"B={options.batch}, T={options.seq}, {options.threads} threads: "
    header += f"products {gflops:.0f} GFLOP/s, copy {rate:.1f} GB/s"
    rows = [header, "", "| part of the floor | ms |", "|---|---|"]
    rows += [f"| {name} | {ms:.1f} |" for name, ms in parts.items()]
    rows.append(f"| **additive floor** | **{total:.1f}** |")
    if options.step_ms:
        rows.append(f"| measured step / floor | {options.step_ms / total:.3f} |")
    text = "\n".join(rows) + "\n"
    print(text)
    if disturbed:
        print(
            f"floor.py: other processes disturbed {disturbed} products; repeat it on an"
            " idle machine",
            file=sys.stderr,
        )
    if options.markdown:
        with options.markdown.open("a") as file:
            file.write("\n" + text)


if __name__ == "__main__":
    main()
