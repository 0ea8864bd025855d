//===- Gpt2Keys.cpp - Configuration keys of GPT-2 -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the keys of transformers' GPT2Config in declaration order. Llama keys
// that GPT-2's code does not read are accepted with any value.
//
//===----------------------------------------------------------------------===//

#include "ConfigKeys.h"

using namespace kiln;

static constexpr llvm::StringLiteral kToken =
    "the id of a special token, for tokenizers and text generation";
static constexpr llvm::StringLiteral kSummary =
    "is read by GPT2DoubleHeadsModel and not by the language model";
static constexpr llvm::StringLiteral kForeign = "a key of the Llama family";

static constexpr ConfigKey kKeys[] = {
    honoured("vocab_size", "50257"),
    honoured("n_positions", "1024"),
    honoured("n_embd", "768"),
    honoured("n_layer", "12"),
    honoured("n_head", "12"),
    honoured("n_inner", "null"),
    honoured("activation_function", "\"gelu_new\""),
    honoured("resid_pdrop", "0.1"),
    honoured("embd_pdrop", "0.1"),
    honoured("attn_pdrop", "0.1"),
    honoured("layer_norm_epsilon", "1e-5"),
    honoured("initializer_range", "0.02"),
    unread("summary_type", "\"cls_index\"", kSummary),
    unread("summary_use_proj", "true", kSummary),
    unread("summary_activation", "null", kSummary),
    unread("summary_proj_to_labels", "true", kSummary),
    unread("summary_first_dropout", "0.1", kSummary),
    honoured("scale_attn_weights", "true"),
    inert("use_cache", "true",
          "caches keys and values for text generation; the result is the same"),
    inert("bos_token_id", "50256", kToken),
    inert("eos_token_id", "50256", kToken),
    inert("pad_token_id", "null",
          "GPT-2's embedding has no padding index; the id is for tokenizers"),
    honoured("scale_attn_by_inverse_layer_idx", "false"),
    inert("reorder_and_upcast_attn", "false",
          "selects the precision of an intermediate result, not another "
          "function"),
    fixed("add_cross_attention", "false", "[null, false]", "false"),
    honoured("tie_word_embeddings", "true"),

    // Names that all families of models share for n_embd, n_layer, n_head and
    // n_positions.
    honoured("hidden_size"),
    honoured("num_hidden_layers"),
    honoured("num_attention_heads"),
    honoured("max_position_embeddings"),

    unread("n_ctx", "repeats n_positions in files of older versions"),
    unread("intermediate_size", kForeign),
    unread("num_key_value_heads", kForeign),
    unread("hidden_act", kForeign),
    unread("rms_norm_eps", kForeign),
    unread("attention_bias", kForeign),
    unread("attention_dropout", kForeign),
    unread("mlp_bias", kForeign),
    unread("pretraining_tp", kForeign),
    unread("use_sliding_window", kForeign),
    unread("max_window_layers", kForeign),
};

const FamilyKeys &kiln::gpt2Keys() {
  static const llvm::ArrayRef<ConfigKey> tables[] = {kKeys, commonKeys()};
  static const FamilyKeys keys = {tables};
  return keys;
}
