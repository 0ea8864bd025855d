# ===- roberta.py - A RoBERTa encoder as a kiln module -------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Writes a RoBERTa encoder that is fine-tuned to classify sequences, as a kiln module.

    roberta.py [--batch=128] [--seq=128] [--layers=12] [--classes=2] > roberta.mlir

The layers are those of RoBERTa-base (post-norm, width 768, 12 heads, 3072 hidden units, exact
GELU, attention without a mask). The class of a sequence is its first target. The classifier is a
dense layer with tanh on the first position, followed by a linear layer without a bias.

The module is only for memory plans: tokens and targets of a module have the same range, which is
that of the classes here.
"""

import argparse

WIDTH, HEADS, HIDDEN, VOCABULARY, POSITIONS = 768, 12, 3072, 50265, 514


class Writer:
    def __init__(self, rows):
        self.rows, self.states, self.body, self.layer, self.count = rows, [], [], None, 0

    def emit(self, op, type, results=1):
        self.count += 1
        name = f"%v{self.count}"
        layer = f'#kiln.layer<"encoder.{self.layer}", {self.layer}>' if self.layer is not None else None
        op = op.replace("{}", f"{{kiln.layer = {layer}}}" if layer else "")
        op = op.replace("{;", f"{{kiln.layer = {layer}, " if layer else "{")
        self.body.append(f"    {name}{f':{results}' if results > 1 else ''} = kiln.{op} : {type}")
        return name if results == 1 else f"{name}#0"

    def parameter(self, name, shape, init="#kiln.normal<mean = 0.0, stddev = 2.0e-02>"):
        type = f"tensor<{shape}xf32>"
        self.states.append(f"  kiln.state @{name} : {type} {{role = #kiln.role<parameter>, init = {init}}}")
        return self.emit(f"read @{name}", type)

    def vector(self, name, columns, value="0.0"):
        return self.parameter(name, columns, f"#kiln.splat<value = {value}>")

    def linear(self, name, x, inputs, outputs, rows=None):
        rows = rows or self.rows
        w = self.parameter(f"{name}.weight", f"{outputs}x{inputs}")
        b = self.vector(f"{name}.bias", outputs)
        out = f"tensor<{rows}x{outputs}xf32>"
        y = self.emit(f"matmul {x}, {w} trans_b {{}}", f"(tensor<{rows}x{inputs}xf32>, tensor<{outputs}x{inputs}xf32>) -> {out}")
        wide = self.emit(f"broadcast {b} dims [1] {{}}", f"tensor<{outputs}xf32> to {out}")
        return self.emit(f"add {y}, {wide} {{}}", out)

    def norm(self, name, x):
        gain, bias = self.vector(f"{name}.weight", WIDTH, "1.0"), self.vector(f"{name}.bias", WIDTH)
        rows, column = f"tensor<{self.rows}x{WIDTH}xf32>", f"tensor<{self.rows}xf32>"
        return self.emit(
            f"layer_norm {x}, {gain}, {bias} {{;eps = 1.0e-05 : f64}}",
            f"({rows}, tensor<{WIDTH}xf32>, tensor<{WIDTH}xf32>) -> ({rows}, {column}, {column})",
            results=3,
        )


def module(batch, length, layers, classes):
    rows = batch * length
    w, wide, hidden = Writer(rows), f"tensor<{rows}x{WIDTH}xf32>", f"tensor<{rows}x{HIDDEN}xf32>"
    table = w.parameter("embeddings.word", f"{VOCABULARY}x{WIDTH}")
    x = w.emit(f"embedding %tokens, {table}", f"(tensor<{batch}x{length}xi32>, tensor<{VOCABULARY}x{WIDTH}xf32>) -> {wide}")
    positions = w.parameter("embeddings.position", f"{POSITIONS}x{WIDTH}")
    p = w.emit(f"slice {positions} [2, 0]", f"tensor<{POSITIONS}x{WIDTH}xf32> to tensor<{length}x{WIDTH}xf32>")
    p = w.emit(f"broadcast {p} dims [1, 2]", f"tensor<{length}x{WIDTH}xf32> to tensor<{batch}x{length}x{WIDTH}xf32>")
    p = w.emit(f"reshape {p}", f"tensor<{batch}x{length}x{WIDTH}xf32> to {wide}")
    x = w.norm("embeddings.norm", w.emit(f"add {x}, {p}", wide))
    for layer in range(layers):
        w.layer, name = layer, f"encoder.{layer}"
        q, k, v = (w.linear(f"{name}.attention.{each}", x, WIDTH, WIDTH) for each in ("query", "key", "value"))
        sums = f"tensor<{batch * HEADS}x{length}xf32>"
        o = w.emit(
            f"attention {q}, {k}, {v} {{;sequences = {batch} : i64, heads = {HEADS} : i64, kv_heads = {HEADS} : i64, "
            f"scale = {(WIDTH // HEADS) ** -0.5} : f64}}",
            f"({wide}, {wide}, {wide}) -> ({wide}, {sums})",
            results=2,
        )
        o = w.linear(f"{name}.attention.output", o, WIDTH, WIDTH)
        x = w.norm(f"{name}.attention.norm", w.emit(f"add {x}, {o} {{}}", wide))
        h = w.linear(f"{name}.intermediate", x, WIDTH, HIDDEN)
        h = w.emit(f"gelu {h} {{}}", hidden)
        h = w.linear(f"{name}.output", h, HIDDEN, WIDTH)
        x = w.norm(f"{name}.output.norm", w.emit(f"add {x}, {h} {{}}", wide))
    w.layer = None
    first = f"tensor<{batch}x{WIDTH}xf32>"
    x = w.emit(f"reshape {x}", f"{wide} to tensor<{batch}x{length * WIDTH}xf32>")
    x = w.emit(f"slice {x} [0, 0]", f"tensor<{batch}x{length * WIDTH}xf32> to {first}")
    x = w.emit(f"tanh {w.linear('classifier.dense', x, WIDTH, WIDTH, rows=batch)}", first)
    out = w.parameter("classifier.output", f"{classes}x{WIDTH}")
    labels = w.emit("slice %targets [0, 0]", f"tensor<{batch}x{length}xi32> to tensor<{batch}x1xi32>")
    loss = w.emit(
        f"linear_cross_entropy {x}, {out}, {labels}, %loss_scale",
        f"({first}, tensor<{classes}x{WIDTH}xf32>, tensor<{batch}x1xi32>, tensor<f64>) -> tensor<f64>",
    )
    facts = (
        f'type = "roberta", name = "roberta", vocab_size = {classes} : i64, batch = {batch} : i64, '
        f"sequence_length = {length} : i64, has_weights = false, files = []"
    )
    ints = f"tensor<{batch}x{length}xi32>"
    lines = [f"module attributes {{kiln.model = {{{facts}}}}} {{", *w.states]
    lines.append(
        f'  kiln.program @forward(%tokens: {ints} {{kiln.name = "tokens"}}, %targets: {ints} {{kiln.name = "targets"}}, '
        '%rng: tensor<1x3xi64> {kiln.name = "rng"}, %loss_scale: tensor<f64> {kiln.name = "loss_scale"})'
    )
    lines.append('      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {')
    return "\n".join([*lines, *w.body, f"    kiln.return {loss} : tensor<f64>", "  }", "}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("batch", 128), ("seq", 128), ("layers", 12), ("classes", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    print(module(options.batch, options.seq, options.layers, options.classes))


main()
