//===- LlamaKeys.cpp - Configuration keys of Llama ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the keys of transformers' LlamaConfig in declaration order.
//
//===----------------------------------------------------------------------===//

#include "ConfigKeys.h"

using namespace kiln;

static constexpr llvm::StringLiteral kForeign = "a key of Qwen2";

static constexpr ConfigKey kKeys[] = {
    honoured("vocab_size", "32000"),
    honoured("hidden_size", "4096"),
    honoured("intermediate_size", "11008"),
    honoured("num_hidden_layers", "32"),
    honoured("num_attention_heads", "32"),
    honoured("num_key_value_heads", "null"),
    honoured("max_position_embeddings", "2048"),
    inert("bos_token_id", "1",
          "the id of a special token, for tokenizers and text generation"),
    inert("eos_token_id", "2",
          "the id of a special token, for tokenizers and text generation"),
    unread("pretraining_tp", "1",
           "older versions compute the same sums in this many parts"),
    honoured("attention_bias", "false"),
    honoured("mlp_bias", "false"),
    honoured("head_dim", "null"),
    // The class does not declare this key, but transformers reads it to choose
    // the type of the key-value cache.
    honoured("layer_types"),

    unread("max_sequence_length",
           "repeats max_position_embeddings in files of older converters"),
    unread("use_sliding_window", kForeign),
    unread("max_window_layers", kForeign),
};

const FamilyKeys &kiln::llamaKeys() {
  static const llvm::ArrayRef<ConfigKey> tables[] = {
      kKeys, rotaryKeys(), foreignGpt2Keys(), commonKeys()};
  static const FamilyKeys keys = {tables};
  return keys;
}
