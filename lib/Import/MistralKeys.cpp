//===- MistralKeys.cpp - Configuration keys of Mistral --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the keys of transformers' MistralConfig in declaration order.
//
//===----------------------------------------------------------------------===//

#include "ConfigKeys.h"

using namespace kiln;

static constexpr llvm::StringLiteral kLlama =
    "a key of Llama; Mistral's projections never have a bias";
static constexpr llvm::StringLiteral kQwen2 = "a key of Qwen2";

static constexpr ConfigKey kKeys[] = {
    honoured("vocab_size", "32000"),
    honoured("hidden_size", "4096"),
    honoured("intermediate_size", "14336"),
    honoured("num_hidden_layers", "32"),
    honoured("num_attention_heads", "32"),
    honoured("num_key_value_heads", "8"),
    honoured("head_dim", "null"),
    honoured("max_position_embeddings", "131072"),
    inert("bos_token_id", "1",
          "the id of a special token, for tokenizers and text generation"),
    inert("eos_token_id", "2",
          "the id of a special token, for tokenizers and text generation"),
    honoured("sliding_window", "4096"),
    // MistralConfig does not declare this key, but transformers reads it to
    // choose the type of the key-value cache.
    honoured("layer_types"),

    unread("attention_bias", kLlama),
    unread("mlp_bias", kLlama),
    unread("pretraining_tp", "a key of Llama"),
    unread("use_sliding_window", kQwen2),
    unread("max_window_layers", kQwen2),
};

const FamilyKeys &kiln::mistralKeys() {
  static const llvm::ArrayRef<ConfigKey> tables[] = {
      kKeys, rotaryKeys(), foreignGpt2Keys(), commonKeys()};
  static const FamilyKeys keys = {tables};
  return keys;
}
