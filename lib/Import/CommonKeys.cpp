//===- CommonKeys.cpp - Keys of all families ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the keys of transformers' PreTrainedConfig, the text generation
// settings that older versions store in the same file, and metadata of other
// tools.
//
//===----------------------------------------------------------------------===//

#include "ConfigKeys.h"

using namespace kiln;

static constexpr llvm::StringLiteral kGeneration =
    "a setting of text generation, which the library ignores when it reads "
    "the file";
static constexpr llvm::StringLiteral kLabels =
    "is for classification and not for the language model";
static constexpr llvm::StringLiteral kOutputs =
    "selects the outputs of the library in addition to the loss";
static constexpr llvm::StringLiteral kToken =
    "the id of a special token, for tokenizers and text generation";
static constexpr llvm::StringLiteral kNote =
    "a note of the tool that wrote the file";
static constexpr llvm::StringLiteral kStorage =
    "the type of the saved tensors, which are converted when they are loaded";

static constexpr ConfigKey kKeys[] = {
    honoured("model_type"),
    honoured("architectures", "null"),
    inert("transformers_version", "null", kNote),
    inert("output_hidden_states", "false", kOutputs),
    inert("output_attentions", "", kOutputs),
    inert("return_dict", "true", kOutputs),
    inert("tie_last_hidden_states", "", kOutputs),
    inert("dtype", "null", kStorage),
    inert("torch_dtype", "", kStorage),
    unread("chunk_size_feed_forward", "0",
           "splits feed-forward layers of other families into parts"),
    inert("id2label", "null", kLabels),
    inert("label2id", "null", kLabels),
    inert("num_labels", "", kLabels),
    inert("problem_type", "null", kLabels),
    inert("name_or_path", "", kNote),
    inert("gradient_checkpointing", "",
          "repeats forward passes instead of keeping their results"),
    inert("experts_implementation", "",
          "selects an implementation of layers that no supported family has"),

    fixed("is_encoder_decoder", "false", "[null, false]", "false"),
    // Null is rejected, because transformers treats a null is_causal as false,
    // which is not implemented.
    fixed("is_causal", "", "[true]",
          "true: attention to later tokens is not implemented"),
    fixed("add_cross_attention", "", "[null, false]", "false"),
    fixed("cross_attention_hidden_size", "", "[null]", "null"),
    fixed("per_layer_config", "", "[null]",
          "null: all layers have the same settings"),
    fixed("pruned_heads", "", "[null, {}, []]",
          "{}: every layer has all of its heads"),
    fixed("torchscript", "", "[null, false]",
          "false: a copy of tied weights is not implemented"),
    fixed("attn_implementation", "",
          "[null, \"eager\", \"sdpa\", \"flash_attention_2\", "
          "\"flash_attention_3\", \"flash_attention_4\", \"flex_attention\"]",
          "eager, sdpa, flash_attention_2, flash_attention_3, "
          "flash_attention_4, flex_attention, which compute the same function"),
    fixed("auto_map", "", "[null]",
          "none, because code of a model directory is never run"),
    fixed("quantization_config", "", "[null]",
          "weights that are not quantized"),

    // Keys that were removed from transformers, or that the library's code for
    // the supported families of models does not read.
    unread("is_decoder", "attention is causal in these families either way"),
    unread("tie_encoder_decoder", "is for encoder-decoder models"),
    unread("use_bfloat16", "was for TensorFlow"),
    unread("output_past", "an older name of use_cache"),
    unread("finetuning_task", kNote),
    unread("task_specific_params",
           "holds settings of text generation for pipelines"),
    unread("tokenizer_class", "is for tokenizers"),
    unread("prefix", "is for pipelines"),
    unread("keys_to_ignore_at_inference", kOutputs),
    inert("sep_token_id", "", kToken),
    unread("unk_token_id", kToken),
    unread("decoder_start_token_id", kToken),
    unread("adapters", kNote),
    unread("is_llama_config", kNote),
    unread("transformers.js_config", kNote),
    unread("unsloth_fixed", kNote),
    unread("unsloth_version", kNote),

    unread("assistant_confidence_threshold", kGeneration),
    unread("assistant_lookbehind", kGeneration),
    unread("bad_words_ids", kGeneration),
    unread("begin_suppress_tokens", kGeneration),
    unread("diversity_penalty", kGeneration),
    unread("do_sample", kGeneration),
    unread("early_stopping", kGeneration),
    unread("encoder_no_repeat_ngram_size", kGeneration),
    unread("encoder_repetition_penalty", kGeneration),
    unread("epsilon_cutoff", kGeneration),
    unread("eta_cutoff", kGeneration),
    unread("exponential_decay_length_penalty", kGeneration),
    unread("forced_bos_token_id", kGeneration),
    unread("forced_eos_token_id", kGeneration),
    unread("length_penalty", kGeneration),
    unread("max_length", kGeneration),
    inert("max_new_tokens", "", "a setting of text generation"),
    unread("min_length", kGeneration),
    unread("no_repeat_ngram_size", kGeneration),
    unread("num_assistant_tokens", kGeneration),
    unread("num_assistant_tokens_schedule", kGeneration),
    unread("num_beam_groups", kGeneration),
    unread("num_beams", kGeneration),
    unread("num_return_sequences", kGeneration),
    unread("output_scores", kGeneration),
    unread("remove_invalid_values", kGeneration),
    unread("repetition_penalty", kGeneration),
    unread("return_dict_in_generate", kGeneration),
    unread("suppress_tokens", kGeneration),
    unread("target_lookbehind", kGeneration),
    unread("temperature", kGeneration),
    unread("top_k", kGeneration),
    unread("top_p", kGeneration),
    unread("typical_p", kGeneration),
};

llvm::ArrayRef<ConfigKey> kiln::commonKeys() { return kKeys; }
