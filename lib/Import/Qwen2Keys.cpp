//===- Qwen2Keys.cpp - Configuration keys of Qwen2 ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the keys of transformers' Qwen2Config in declaration order.
//
//===----------------------------------------------------------------------===//

#include "ConfigKeys.h"

using namespace kiln;

static constexpr llvm::StringLiteral kLlama =
    "a key of Llama; the biases of Qwen2's projections are fixed";

static constexpr ConfigKey kKeys[] = {
    honoured("vocab_size", "151936"),
    honoured("hidden_size", "4096"),
    honoured("intermediate_size", "22016"),
    honoured("num_hidden_layers", "32"),
    honoured("num_attention_heads", "32"),
    honoured("num_key_value_heads", "32"),
    honoured("max_position_embeddings", "32768"),
    honoured("use_sliding_window", "false"),
    honoured("sliding_window", "4096"),
    honoured("max_window_layers", "28"),
    honoured("layer_types", "null"),
    inert("bos_token_id", "null",
          "the id of a special token, for tokenizers and text generation"),
    inert("eos_token_id", "null",
          "the id of a special token, for tokenizers and text generation"),
    // Qwen2Config does not declare this key, but transformers reads it.
    honoured("head_dim"),

    unread("attention_bias", kLlama),
    unread("mlp_bias", kLlama),
    unread("pretraining_tp", "a key of Llama"),
};

const FamilyKeys &kiln::qwen2Keys() {
  static const llvm::ArrayRef<ConfigKey> tables[] = {
      kKeys, rotaryKeys(), foreignGpt2Keys(), commonKeys()};
  static const FamilyKeys keys = {tables};
  return keys;
}
