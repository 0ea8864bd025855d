#!/usr/bin/env python3
# ===- make_weights.py - Weights and tokens from formulas --------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Writes the weights and tokens that the expectations use.

    make_weights.py MODEL_DIR OUT_DIR [LORA]

Writes OUT_DIR/model.safetensors (f32), train.bin and validation.bin (llm.c token files).
With LORA, the options of `kilnc --lora`, writes OUT_DIR/adapter, an adapter of PEFT.
Every value is a function of its name and index that is computed with integers, so the files
have the same bytes on all machines and need not be committed. Only the standard library is
used, because tests run this script without PyTorch.
"""

import array
import json
import math
import pathlib
import struct
import sys

MASK = 2**64 - 1


def key_of(name):
    """Returns the FNV-1a hash of the name."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def hashes(name, count):
    """Returns `count` 64-bit hashes: splitmix64 at key + index."""
    state = key_of(name)
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


# Standard deviations. They are larger than in a real initialisation, so that attention is far
# from uniform and a wrong scale or mask is detected.
SPREAD = {"weight": 0.06, "bias": 0.02, "scale": 0.1}


def values(name, kind, count):
    """Returns f32 values of a parameter: uniform around 0, or around 1 for a scale."""
    width = SPREAD[kind] * math.sqrt(3.0)
    middle = 1.0 if kind == "scale" else 0.0
    return array.array(
        "f", (middle + width * ((h >> 11) * 2.0**-52 - 1.0) for h in hashes(name, count))
    )


def gpt2_parameters(c):
    """Returns (name, shape, kind) of each parameter, with names and layouts as in files."""
    width = c["n_embd"]
    inner = c.get("n_inner") or 4 * width
    yield "transformer.wte.weight", (c["vocab_size"], width), "weight"
    yield "transformer.wpe.weight", (c["n_positions"], width), "weight"

    def pair(prefix, shape):
        yield prefix + ".weight", shape, "weight" if len(shape) > 1 else "scale"
        yield prefix + ".bias", shape[-1:], "bias"

    for i in range(c["n_layer"]):
        h = f"transformer.h.{i}."
        yield from pair(h + "ln_1", (width,))
        yield from pair(h + "attn.c_attn", (width, 3 * width))
        yield from pair(h + "attn.c_proj", (width, width))
        yield from pair(h + "ln_2", (width,))
        yield from pair(h + "mlp.c_fc", (width, inner))
        yield from pair(h + "mlp.c_proj", (inner, width))
    yield from pair("transformer.ln_f", (width,))


def llama_parameters(c):
    """Returns (name, shape, kind) of each parameter, with names and layouts as in files."""
    width, inner = c["hidden_size"], c["intermediate_size"]
    heads = c["num_attention_heads"]
    kv_heads = c.get("num_key_value_heads") or heads
    head = c.get("head_dim") or width // heads
    yield "model.embed_tokens.weight", (c["vocab_size"], width), "weight"

    def linear(name, rows, columns, bias):
        yield name + ".weight", (rows, columns), "weight"
        if bias:
            yield name + ".bias", (rows,), "bias"

    attention_bias = c.get("attention_bias", False)
    mlp_bias = c.get("mlp_bias", False)
    for i in range(c["num_hidden_layers"]):
        h = f"model.layers.{i}."
        yield h + "input_layernorm.weight", (width,), "scale"
        yield from linear(h + "self_attn.q_proj", heads * head, width, attention_bias)
        yield from linear(h + "self_attn.k_proj", kv_heads * head, width, attention_bias)
        yield from linear(h + "self_attn.v_proj", kv_heads * head, width, attention_bias)
        yield from linear(h + "self_attn.o_proj", width, heads * head, attention_bias)
        yield h + "post_attention_layernorm.weight", (width,), "scale"
        yield from linear(h + "mlp.gate_proj", inner, width, mlp_bias)
        yield from linear(h + "mlp.up_proj", inner, width, mlp_bias)
        yield from linear(h + "mlp.down_proj", width, inner, mlp_bias)
    yield "model.norm.weight", (width,), "scale"
    if not c.get("tie_word_embeddings", False):
        yield "lm_head.weight", (c["vocab_size"], width), "weight"


def parameters(config):
    kinds = {"gpt2": gpt2_parameters, "llama": llama_parameters}
    return list(kinds[config["model_type"]](config))


def lora_options(text):
    """Parses r=N,alpha=X,targets=A:B[,rslora=on] to the members of adapter_config.json."""
    options = dict(item.split("=") for item in text.split(","))
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": int(options["r"]),
        "lora_alpha": float(options["alpha"]),
        "target_modules": options["targets"].split(":"),
        "use_rslora": options.get("rslora") == "on",
    }


def adapter_parameters(config, lora):
    """Returns (name, shape, kind) of the factors of the adapters, as in PEFT's files."""
    options = lora_options(lora)
    for name, shape, _ in parameters(config):
        layer = name.removesuffix(".weight")
        if len(shape) != 2 or not any(
            layer.endswith("." + target) for target in options["target_modules"]
        ):
            continue
        inputs, outputs = shape if config["model_type"] == "gpt2" else reversed(shape)
        prefix = "base_model.model." + layer
        yield prefix + ".lora_A.weight", (options["r"], inputs), "weight"
        yield prefix + ".lora_B.weight", (outputs, options["r"]), "weight"


def write_adapter(out, config, lora):
    out.mkdir(exist_ok=True)
    (out / "adapter_config.json").write_text(json.dumps(lora_options(lora)))
    write_safetensors(
        out / "adapter_model.safetensors",
        [(n, s, values(n, k, math.prod(s))) for n, s, k in adapter_parameters(config, lora)],
    )


def tokens(name, vocab, count):
    """Returns token ids in which small ids are more frequent, so rows of an embedding
    repeat."""
    return [int(vocab * ((h >> 11) * 2.0**-53) ** 2) for h in hashes(name, count)]


# The training file contains 25 sequences of 40 tokens and a remainder of 9 tokens. 25 is not a
# multiple of the batch size 4, so 20 steps wrap around the file in the middle of a batch.
TRAIN_TOKENS, VALIDATION_TOKENS = 1010, 500


def train_tokens(config):
    return tokens("train", config["vocab_size"], TRAIN_TOKENS)


def validation_tokens(config):
    return tokens("validation", config["vocab_size"], VALIDATION_TOKENS)


def write_safetensors(path, tensors):
    """Writes tensors given as (name, shape, array of f32)."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, data in tensors:
        end = offset + 4 * len(data)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors:
            if sys.byteorder == "big":
                data.byteswap()
            file.write(data.tobytes())


def write_tokens(path, ids):
    """Writes the llm.c format: a header of 256 i32, then u16 tokens."""
    header = [20240520, 1, len(ids)] + [0] * 253
    path.write_bytes(struct.pack("<256i", *header) + struct.pack(f"<{len(ids)}H", *ids))


def main(arguments):
    if len(arguments) not in (2, 3):
        print("usage: make_weights.py MODEL_DIR OUT_DIR [LORA]", file=sys.stderr)
        return 2
    config = json.loads((pathlib.Path(arguments[0]) / "config.json").read_text())
    out = pathlib.Path(arguments[1])
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(
        out / "model.safetensors",
        [(n, s, values(n, k, math.prod(s))) for n, s, k in parameters(config)],
    )
    if len(arguments) == 3:
        write_adapter(out / "adapter", config, arguments[2])
    write_tokens(out / "train.bin", train_tokens(config))
    write_tokens(out / "validation.bin", validation_tokens(config))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
