# ===- gpt2.py - Cost model of GPT-2 training steps --------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Operations and bytes of a training step, and a lower bound of its time: the additive
floor.

The floor is the sum of the times of the matmuls, of the causal half of attention, of
the memory traffic of fused kernels, and of AdamW, each at a rate measured in the same
run. The traffic per token and layer, in rows of the model's width, is: 8 forward and 8
backward for the two residual additions with norms, 4 and 8 for attention, 4 and 4 for
the stored pre-activation, and 9 for bias gradients. In addition, there are three times
the logits, and 28 bytes per parameter."""

ROWS_PER_LAYER = 8 + 8 + 4 + 8 + 4 + 4 + 9
ADAMW_BYTES = 28


def flops_per_token(c, length):
    """Returns the operations that count for MFU: full attention, no recomputation."""
    width, layers = c["n_embd"], c["n_layer"]
    matrices = 12 * layers * width * width + c["vocab_size"] * width
    return 6.0 * matrices + 12.0 * layers * width * length


def products(c, tokens):
    """Yields (name, transA, transB, m, n, k, count) of a step's row-major matmuls."""
    width = c["n_embd"]
    inner = c.get("n_inner") or 4 * width
    linears = {
        "attn.c_attn": (width, 3 * width),
        "attn.c_proj": (width, width),
        "mlp.c_fc": (width, inner),
        "mlp.c_proj": (inner, width),
    }
    for name, (rows, columns) in linears.items():  # weights stored [in, out]
        yield name + " forward", 0, 0, tokens, columns, rows, c["n_layer"]
        yield name + " input gradient", 0, 1, tokens, rows, columns, c["n_layer"]
        yield name + " weight gradient", 1, 0, rows, columns, tokens, c["n_layer"]
    vocabulary = c["vocab_size"]  # stored [vocabulary, width]
    yield "classifier forward", 0, 1, tokens, vocabulary, width, 1
    yield "classifier input gradient", 0, 0, tokens, width, vocabulary, 1
    yield "classifier weight gradient", 1, 0, vocabulary, width, tokens, 1


def product_flops(c, tokens):
    return sum(2.0 * m * n * k * often for _, _, _, m, n, k, often in products(c, tokens))


def parameters(c):
    width = c["n_embd"]
    inner = c.get("n_inner") or 4 * width
    matrices = 4 * width * width + 2 * width * inner
    vectors = 4 * width + 3 * width + width + inner + width
    embeddings = (c["vocab_size"] + c["n_positions"]) * width
    return c["n_layer"] * (matrices + vectors) + embeddings + 2 * width


def floor_parts(c, batch, length, element, tflops, attention_tflops, gbs):
    """Returns the milliseconds of each part; `element` is the bytes of an activation."""
    tokens, width, layers = batch * length, c["n_embd"], c["n_layer"]
    attention = 12.0 * layers * width * length * tokens / 2
    return {
        "products": product_flops(c, tokens) / tflops * 1e-9,
        "attention": attention / attention_tflops * 1e-9,
        "elementwise": element * ROWS_PER_LAYER * width * layers * tokens / gbs * 1e-6,
        "classifier": element * 3 * c["vocab_size"] * tokens / gbs * 1e-6,
        "AdamW": ADAMW_BYTES * parameters(c) / gbs * 1e-6,
    }
