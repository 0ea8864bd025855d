# ===- reference.py - GPT-2 and Llama losses in plain PyTorch ---------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Computes the mean cross-entropy of the model described by a config.json.

Each function takes the configuration, the parameters by their names in the file, and tokens
and targets of shape [batch, sequence]. No model library is used: the formulas are those of
the published models, so they can be compared with kiln's.
"""

import math

import torch
import torch.nn.functional as F


def attention(q, k, v):
    """Computes causal attention; q is [B, H, T, d], k and v are [B, G, T, d], and G divides
    H."""
    repeat = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(repeat, dim=1)
    v = v.repeat_interleave(repeat, dim=1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    length = q.shape[2]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


def split_heads(x, heads):
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def merge_heads(x):
    batch, heads, length, head = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * head)


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def gpt2_loss(c, w, tokens, targets):
    width, heads, eps = c["n_embd"], c["n_head"], c["layer_norm_epsilon"]
    approximate = {"gelu_new": "tanh", "gelu": "none"}[c["activation_function"]]

    def norm(x, name):
        return F.layer_norm(x, (width,), w[name + ".weight"], w[name + ".bias"], eps)

    def linear(x, name):  # Stored as [in, out].
        return x @ w[name + ".weight"] + w[name + ".bias"]

    wte, wpe = w["transformer.wte.weight"], w["transformer.wpe.weight"]
    x = wte[tokens] + wpe[: tokens.shape[1]]
    for i in range(c["n_layer"]):
        h = f"transformer.h.{i}."
        qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn")
        q, k, v = (split_heads(part, heads) for part in qkv.split(width, dim=2))
        x = x + linear(merge_heads(attention(q, k, v)), h + "attn.c_proj")
        up = linear(norm(x, h + "ln_2"), h + "mlp.c_fc")
        x = x + linear(F.gelu(up, approximate=approximate), h + "mlp.c_proj")
    return cross_entropy(norm(x, "transformer.ln_f") @ wte.T, targets)


def rope_frequencies(c, head):
    """Returns the angle per position of each pair of dimensions."""
    rope = dict(c.get("rope_parameters") or c.get("rope_scaling") or {})
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = rope.get("rope_theta", c.get("rope_theta", 10000.0))
    frequencies = [theta ** (-2.0 * i / head) for i in range(head // 2)]
    if kind == "default":
        return frequencies
    if kind == "linear":
        return [f / rope["factor"] for f in frequencies]
    if kind != "llama3":
        raise ValueError(f"unknown rope_type '{kind}'")
    factor, low, high = (rope[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
    original = rope["original_max_position_embeddings"]

    def scaled(f):
        length = 2 * math.pi / f
        if length < original / high:
            return f
        if length > original / low:
            return f / factor
        smooth = (original / length - low) / (high - low)
        return (1 - smooth) * f / factor + smooth * f

    return [scaled(f) for f in frequencies]


def rotate(x, angles):
    """Rotates the pairs (j, j + d/2) of x [B, H, T, d] by angles [T, d/2]."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def llama_loss(c, w, tokens, targets):
    heads = c["num_attention_heads"]
    kv_heads = c.get("num_key_value_heads") or heads
    head = c.get("head_dim") or c["hidden_size"] // heads
    eps = c["rms_norm_eps"]
    embedding = w["model.embed_tokens.weight"]

    def norm(x, name):
        return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * w[name]

    def linear(x, name):  # Stored as [out, in].
        return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    positions = torch.arange(tokens.shape[1], dtype=embedding.dtype)
    frequencies = torch.tensor(rope_frequencies(c, head), dtype=embedding.dtype)
    angles = torch.outer(positions, frequencies)
    x = F.embedding(tokens, embedding, padding_idx=c.get("pad_token_id"))
    for i in range(c["num_hidden_layers"]):
        h = f"model.layers.{i}."
        y = norm(x, h + "input_layernorm.weight")
        q = rotate(split_heads(linear(y, h + "self_attn.q_proj"), heads), angles)
        k = rotate(split_heads(linear(y, h + "self_attn.k_proj"), kv_heads), angles)
        v = split_heads(linear(y, h + "self_attn.v_proj"), kv_heads)
        x = x + linear(merge_heads(attention(q, k, v)), h + "self_attn.o_proj")
        y = norm(x, h + "post_attention_layernorm.weight")
        gate = F.silu(linear(y, h + "mlp.gate_proj"))
        x = x + linear(gate * linear(y, h + "mlp.up_proj"), h + "mlp.down_proj")
    classifier = w.get("lm_head.weight", embedding)
    return cross_entropy(F.linear(norm(x, "model.norm.weight"), classifier), targets)


def loss(config, weights, tokens, targets):
    kinds = {"gpt2": gpt2_loss, "llama": llama_loss}
    return kinds[config["model_type"]](config, weights, tokens, targets)
