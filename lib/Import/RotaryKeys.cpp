//===- RotaryKeys.cpp - Shared keys of the Llama family -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the keys that transformers' LlamaConfig, MistralConfig and Qwen2Config
// declare with the same default, the keys of rotary positions, and the keys of
// GPT-2 that these models do not read.
//
//===----------------------------------------------------------------------===//

#include "ConfigKeys.h"

using namespace kiln;

static constexpr ConfigKey kKeys[] = {
    honoured("hidden_act", "\"silu\""),
    honoured("initializer_range", "0.02"),
    honoured("rms_norm_eps", "1e-6"),
    inert("use_cache", "true",
          "caches keys and values for text generation; the result is the same"),
    honoured("pad_token_id", "null"),
    honoured("tie_word_embeddings", "false"),
    honoured("rope_parameters", "null"),
    honoured("attention_dropout", "0.0"),

    // Keys of older versions of transformers, which newer versions translate to
    // rope_parameters.
    honoured("rope_theta"),
    honoured("rope_scaling"),
    fixed("partial_rotary_factor", "", "[null, 1.0]", "1.0"),
};

llvm::ArrayRef<ConfigKey> kiln::rotaryKeys() { return kKeys; }

static constexpr llvm::StringLiteral kForeign = "a key of GPT-2";

static constexpr ConfigKey kForeignKeys[] = {
    unread("n_positions", kForeign),
    unread("n_ctx", kForeign),
    unread("n_embd", kForeign),
    unread("n_layer", kForeign),
    unread("n_head", kForeign),
    unread("n_inner", kForeign),
    unread("activation_function", kForeign),
    unread("resid_pdrop", kForeign),
    unread("embd_pdrop", kForeign),
    unread("attn_pdrop", kForeign),
    unread("layer_norm_epsilon", kForeign),
    unread("summary_type", kForeign),
    unread("summary_use_proj", kForeign),
    unread("summary_activation", kForeign),
    unread("summary_proj_to_labels", kForeign),
    unread("summary_first_dropout", kForeign),
    unread("scale_attn_weights", kForeign),
    unread("scale_attn_by_inverse_layer_idx", kForeign),
    unread("reorder_and_upcast_attn", kForeign),
};

llvm::ArrayRef<ConfigKey> kiln::foreignGpt2Keys() { return kForeignKeys; }
