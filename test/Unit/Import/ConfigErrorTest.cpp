//===- ConfigErrorTest.cpp - Tests of rejected configurations -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each message names the file, the key, its value and the expected values.
//
//===----------------------------------------------------------------------===//

#include "TestModel.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;
using nlohmann::json;

namespace {

struct Case {
  /// A JSON object whose values replace those of the configuration. The value
  /// "REMOVE" removes its key from the configuration.
  const char *patch;
  const char *message; ///< The error message, starting with the key.
};

void check(const json &base, llvm::ArrayRef<Case> cases,
           const ImportOptions &options = {}) {
  for (const Case &test : cases) {
    json config = base;
    json patch = json::parse(test.patch, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(patch.is_object()) << test.patch;
    for (auto &[key, value] : patch.items())
      if (value == "REMOVE")
        config.erase(key);
      else
        config[key] = value;
    ModelDirectory directory(config);
    Imported result = importDirectory(directory.path(), options);
    std::string file = directory.path() + "/config.json: ";
    EXPECT_EQ(result.error, file + test.message) << test.patch;
    EXPECT_EQ(result.code, ExitCode::BadInput) << test.patch;
  }
}

TEST(ConfigError, Common) {
  check(
      gpt2Config(),
      {{R"({"model_type": "bert"})",
        "'model_type' is \"bert\", which kiln does not support; supported: "
        "gpt2, llama, mistral, qwen2"},
       {R"({"model_type": "REMOVE"})",
        "'model_type' is missing, which kiln does not support; supported: "
        "gpt2, llama, mistral, qwen2"},
       {R"({"model_type": 2})", "'model_type' is 2, expected a string"},
       {R"({"architectures": ["GPT2ForSequenceClassification"]})",
        "'architectures' is [\"GPT2ForSequenceClassification\"], which kiln "
        "does not support; supported: GPT2LMHeadModel, GPT2Model"},
       {R"({"architectures": "GPT2LMHeadModel"})",
        "'architectures' is \"GPT2LMHeadModel\", expected an array of "
        "strings"},
       {R"({"architectures": [1]})",
        "'architectures' is [1], expected an array of strings"},
       {R"({"auto_map": {"AutoModel": "modeling.Own"}})",
        "'auto_map' is {\"AutoModel\":\"modeling.Own\"}, which kiln does not "
        "support; supported: none, because code of a model directory is "
        "never run"},
       {R"({"quantization_config": {"bits": 4}})",
        "'quantization_config' is {\"bits\":4}, which kiln does not support; "
        "supported: weights that are not quantized"},
       {R"({"is_encoder_decoder": true})",
        "'is_encoder_decoder' is true, which kiln does not support; "
        "supported: false"},
       {R"({"embedding_multiplier": 12.0})",
        "\"embedding_multiplier\" is 12.0, but kiln does not know this key for "
        "model_type 'gpt2', and the key may change what the model computes; if "
        "it does not, remove it or pass "
        "--ignore-config-keys=embedding_multiplier"},
       {R"({"switched_off": false})",
        "\"switched_off\" is false, but kiln does not know this key for "
        "model_type 'gpt2', and the key may change what the model computes; if "
        "it does not, remove it or pass --ignore-config-keys=switched_off"},
       {R"({"a\nb": 1})", "\"a\\nb\" is 1, but kiln does not know this key for "
                          "model_type 'gpt2', "
                          "and the key may change what the model computes; if "
                          "it does not, remove "
                          "it or pass --ignore-config-keys=a\\x0ab"}});
}

TEST(ConfigError, TypesAndRanges) {
  check(
      gpt2Config(),
      {{R"({"n_layer": "12"})",
        "'n_layer' is \"12\", expected an integer from 1 to 10000"},
       {R"({"n_layer": 12.0})",
        "'n_layer' is 12.0, expected an integer from 1 to 10000"},
       {R"({"n_layer": true})",
        "'n_layer' is true, expected an integer from 1 to 10000"},
       {R"({"n_layer": [1, 2, 3, 4, 5, 6]})",
        "'n_layer' is an array, expected an integer from 1 to 10000"},
       {R"({"n_layer": 0})",
        "'n_layer' is 0, expected an integer from 1 to 10000"},
       {R"({"n_layer": -1})",
        "'n_layer' is -1, expected an integer from 1 to 10000"},
       {R"({"n_layer": 10001})",
        "'n_layer' is 10001, expected an integer from 1 to 10000"},
       {R"({"n_layer": 18446744073709551615})",
        "'n_layer' is 18446744073709551615, expected an integer from 1 to "
        "10000"},
       {R"({"n_layer": 100000000000000000000})",
        "'n_layer' is 1e+20, expected an integer from 1 to 10000"},
       {R"({"n_layer": "REMOVE"})",
        "'n_layer' is missing, expected an integer from 1 to 10000"},
       {R"({"n_layer": null})",
        "'n_layer' is missing, expected an integer from 1 to 10000"},
       {R"({"vocab_size": 4294967296})",
        "'vocab_size' is 4294967296, expected an integer from 1 to "
        "2147483647"},
       {R"({"n_embd": 268435457})",
        "'n_embd' is 268435457, expected an integer from 1 to 268435456"},
       {R"({"n_inner": 0})",
        "'n_inner' is 0, expected an integer from 1 to 268435456"},
       {R"({"layer_norm_epsilon": "small"})",
        "'layer_norm_epsilon' is \"small\", expected a number from 0 to 1"},
       {R"({"layer_norm_epsilon": -1e-5})",
        "'layer_norm_epsilon' is -1e-05, expected a number from 0 to 1"},
       {R"({"resid_pdrop": 1.0})",
        "'resid_pdrop' is 1.0, expected a probability, at least 0 and below "
        "1"},
       {R"({"attn_pdrop": -0.1})",
        "'attn_pdrop' is -0.1, expected a probability, at least 0 and below "
        "1"},
       {R"({"scale_attn_weights": 1})",
        "'scale_attn_weights' is 1, expected true or false"},
       {R"({"n_head": 5})",
        "'n_head' is 5, which kiln does not support; supported: a divisor of "
        "n_embd, which is 24"},
       {R"({"n_head": 48})",
        "'n_head' is 48, which kiln does not support; supported: a divisor of "
        "n_embd, which is 24"},
       {R"({"activation_function": "mish"})",
        "'activation_function' is \"mish\", which kiln does not support; "
        "supported: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish"},
       {R"({"add_cross_attention": true})",
        "'add_cross_attention' is true, which kiln does not support; "
        "supported: false"},
       {R"({"hidden_size": 32})", "'n_embd' is 24 but 'hidden_size', another "
                                  "name of the same key, is 32; remove "
                                  "one of them"},
       {R"({"n_embd": 268435455, "n_head": 1})",
        "with batch 1 and sequence length 16 the model's tensors have more "
        "than 2^40 elements; expected smaller dimensions"},
       {R"({"n_embd": 268435456, "n_head": 1, "n_inner": 268435456,
            "n_positions": 268435456, "n_layer": 10000,
            "vocab_size": 2147483647})",
        "with batch 1 and sequence length 268435456 the model's tensors have "
        "more than 2^40 elements; expected smaller dimensions"}});
}

TEST(ConfigError, Llama) {
  check(
      llamaConfig(),
      {{R"({"num_key_value_heads": 4})",
        "'num_key_value_heads' is 4, which kiln does not support; supported: a "
        "divisor of num_attention_heads, which is 6"},
       {R"({"num_attention_heads": 10, "num_key_value_heads": 5})",
        "'num_attention_heads' is 10, which kiln does not support; supported: "
        "a divisor of hidden_size, which is 24, unless head_dim is given"},
       {R"({"head_dim": 7})",
        "'head_dim' is 7, which kiln does not support; supported: an even "
        "number of features per head, up to 65536"},
       {R"({"num_attention_heads": 8})",
        "'hidden_size' is 24, which kiln does not support; supported: an even "
        "number of features per head, up to 65536"},
       {R"({"hidden_act": "xielu"})",
        "'hidden_act' is \"xielu\", which kiln does not support; supported: "
        "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish"},
       {R"({"rope_theta": 0.0})",
        "'rope_theta' is 0.0, expected a number from 1 to 1e+12"},
       {R"({"partial_rotary_factor": 0.5})",
        "'partial_rotary_factor' is 0.5, which kiln does not support; "
        "supported: 1.0"},
       {R"({"rope_scaling": "linear"})",
        "'rope_scaling' is \"linear\", expected an object or null"},
       {R"({"rope_scaling": {"type": "yarn", "factor": 4.0}})",
        "'rope_scaling.type' is \"yarn\", which kiln does not support; "
        "supported: default, linear, dynamic, llama3"},
       {R"({"rope_parameters": {"rope_type": "longrope"}})",
        "'rope_parameters.rope_type' is \"longrope\", which kiln does not "
        "support; supported: default, linear, dynamic, llama3"},
       {R"({"rope_scaling": {"type": "linear"}})",
        "'rope_scaling.factor' is missing, expected a number from 1 to 1e+12"},
       {R"({"rope_scaling": {"rope_type": "linear", "type": "dynamic"}})",
        "'rope_scaling.rope_type' is \"linear\" but 'rope_scaling.type', "
        "another name of the same key, is \"dynamic\"; remove one of them"},
       {R"({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0,
            "original_max_position_embeddings": 8}})",
        "'rope_scaling.original_max_position_embeddings' is 8, which kiln does "
        "not support; supported: at least the sequence length, 16"},
       {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0,
            "low_freq_factor": 4.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8}})",
        "'rope_scaling.high_freq_factor' is 4.0, which kiln does not support; "
        "supported: a number larger than low_freq_factor"},
       {R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0,
            "attention_factor": 1.5}})",
        "\"rope_scaling.attention_factor\" is 1.5, but kiln does not know "
        "this key for model_type 'llama', and the key may change what the "
        "model "
        "computes; if it does not, remove it or pass "
        "--ignore-config-keys=rope_scaling.attention_factor"},
       {R"({"rope_parameters": {"rope_type": "default", "truncate": false}})",
        "\"rope_parameters.truncate\" is false, but kiln does not know this "
        "key "
        "for model_type 'llama', and the key may change what the model "
        "computes; "
        "if it does not, remove it or pass "
        "--ignore-config-keys=rope_parameters.truncate"},
       {R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0},
            "rope_parameters": {"rope_type": "default"}})",
        "'rope_scaling' is {\"factor\":2.0,\"rope_type\":\"linear\"}, which "
        "kiln does not support; supported: only one of rope_scaling "
        "and rope_parameters, or equal values for both"},
       {R"({"rope_parameters": {"rope_theta": 7.0}})",
        "'rope_parameters.rope_theta' is 7.0, which kiln does not support; "
        "supported: the value of rope_theta at the top level of the file"},
       {R"({"sliding_window": 4})",
        "\"sliding_window\" is 4, but kiln does not know this key for "
        "model_type "
        "'llama', and the key may change what the model computes; if it does "
        "not, "
        "remove it or pass --ignore-config-keys=sliding_window"},
       {R"({"layer_types": ["full_attention", "sliding_attention"]})",
        "'layer_types' is [\"full_attention\",\"sliding_attention\"], which "
        "kiln does not support; supported: full_attention in every layer"},
       {R"({"layer_types": ["full_attention"]})",
        "'layer_types' is [\"full_attention\"], which kiln does not support; "
        "supported: one entry for each of the 2 layers"}});
}

TEST(ConfigError, SlidingWindows) {
  const char *window =
      "'sliding_window' is 15, which kiln does not support; supported: null, "
      "or at least the sequence length, which is 16";
  check(mistralConfig(), {{R"({"sliding_window": 15})", window}});
  check(mistralConfig(),
        {{R"({"sliding_window": "REMOVE", "max_position_embeddings": 4097})",
          "'sliding_window' is missing, which kiln does not support; "
          "supported: null, or at least the sequence length, which is 4097"},
         {R"({"num_key_value_heads": "REMOVE"})",
          "'num_key_value_heads' is missing, expected an integer from 1 to "
          "268435456"}});
  check(qwen2Config(),
        {{R"({"use_sliding_window": true, "sliding_window": 15,
              "max_window_layers": 1})",
          window},
         {R"({"layer_types": ["full_attention", "sliding_attention"]})",
          "'layer_types' is [\"full_attention\",\"sliding_attention\"], which "
          "kiln does not support; supported: full_attention in every layer"}});
}

TEST(ConfigError, WindowsOfNoLayer) {
  json config = qwen2Config();
  config["use_sliding_window"] = true;
  config["sliding_window"] = 4;
  for (int first : {2, 28}) {
    config["max_window_layers"] = first;
    EXPECT_EQ(importConfig(config).error, "") << first;
  }
  config["max_window_layers"] = 1;
  EXPECT_NE(importConfig(config).error.find("'sliding_window' is 4"),
            std::string::npos);
  config["layer_types"] = {"full_attention", "full_attention"};
  EXPECT_EQ(importConfig(config).error, "");
}

/// Tests the keys for which only some values are supported.
TEST(ConfigError, FixedKeys) {
  const char *causal = ", which kiln does not support; supported: true: "
                       "attention to later tokens is not implemented";
  for (const json &base :
       {gpt2Config(), llamaConfig(), mistralConfig(), qwen2Config()}) {
    // The transformers library treats null as false.
    for (const char *value : {"false", "null", "0"}) {
      std::string patch = std::string("{\"is_causal\": ") + value + "}";
      std::string message = std::string("'is_causal' is ") + value + causal;
      check(base, {{patch.c_str(), message.c_str()}});
    }
    check(base,
          {{R"({"add_cross_attention": true})",
            "'add_cross_attention' is true, which kiln does not support; "
            "supported: false"},
           {R"({"per_layer_config": {"0": {"num_attention_heads": 1}}})",
            "'per_layer_config' is {\"0\":{\"num_attention_heads\":1}}, which "
            "kiln does not support; supported: null: all layers have the same "
            "settings"},
           {R"({"pruned_heads": {"0": [1]}})",
            "'pruned_heads' is {\"0\":[1]}, which kiln does not support; "
            "supported: {}: every layer has all of its heads"},
           {R"({"attn_implementation": "someone/kernel"})",
            "'attn_implementation' is \"someone/kernel\", which kiln does not "
            "support; supported: eager, sdpa, flash_attention_2, "
            "flash_attention_3, flash_attention_4, flex_attention, which "
            "compute the same function"}});
    json accepted = base;
    accepted["is_causal"] = true;
    accepted["add_cross_attention"] = false;
    accepted["cross_attention_hidden_size"] = nullptr;
    accepted["is_encoder_decoder"] = false;
    accepted["pruned_heads"] = json::object();
    accepted["attn_implementation"] = "eager";
    EXPECT_EQ(importConfig(accepted).error, "");
  }
}

/// Tests keys for which every value is accepted.
TEST(ConfigError, KeysWithoutInfluence) {
  json common;
  common["torch_dtype"] = "bfloat16";
  common["bos_token_id"] = 49;
  common["eos_token_id"] = {1, 2};
  common["transformers_version"] = "5.0.0";
  common["_name_or_path"] = "somewhere";
  common["task_specific_params"] = {{"text-generation", {{"do_sample", true}}}};
  common["unheard_of"] = nullptr;
  common["use_cache"] = false;
  common["output_past"] = true;
  common["is_decoder"] = true;
  common["chunk_size_feed_forward"] = 2;
  common["top_k"] = 3;
  for (json config :
       {gpt2Config(), llamaConfig(), mistralConfig(), qwen2Config()}) {
    config.update(common);
    EXPECT_EQ(importConfig(config).error, "");
    bool gpt2 = config["model_type"] == "gpt2";
    if (gpt2) {
      config["hidden_act"] = "silu";
      config["mlp_bias"] = true;
    } else {
      config["embd_pdrop"] = 0.0;
      config["n_inner"] = 7;
      config["layer_types"] = {"full_attention", "full_attention"};
    }
    EXPECT_EQ(importConfig(config).error, "");
    // Mistral and Qwen2 ignore the bias keys, which only Llama configurations
    // use.
    if (!gpt2 && config["model_type"] != "llama") {
      ModelDirectory directory(config);
      std::string without = print(*importDirectory(directory.path()).module);
      config["attention_bias"] = config["mlp_bias"] = true;
      directory.write("config.json", config.dump());
      std::string with = print(*importDirectory(directory.path()).module);
      EXPECT_TRUE(with == without) << config["model_type"];
    }
  }
}

TEST(ConfigError, IgnoredKeys) {
  json config = llamaConfig();
  config["is_causal"] = false;
  config["unheard_of"] = 1;
  config["rope_scaling"] = {
      {"rope_type", "linear"}, {"factor", 2.0}, {"strange", 3}};
  ModelDirectory directory(config);
  std::string file = directory.path() + "/config.json";
  auto import = [&](std::vector<std::string> keys) {
    ImportOptions options;
    options.ignoredKeys = std::move(keys);
    return importDirectory(directory.path(), options);
  };
  const std::vector<std::string> all = {"is_causal", "unheard_of",
                                        "rope_scaling.strange"};
  EXPECT_EQ(import(all).error, "");
  for (const std::string &key : all) {
    std::vector<std::string> others;
    for (const std::string &other : all)
      if (other != key)
        others.push_back(other);
    Imported result = import(others);
    EXPECT_NE(
        result.error.find(key + (key == "is_causal" ? "'" : "\"") + " is "),
        std::string::npos)
        << result.error;
    EXPECT_EQ(result.code, ExitCode::BadInput);
  }
  auto refuse = [&](const char *key, const std::string &message) {
    std::vector<std::string> keys = all;
    keys.push_back(key);
    Imported result = import(keys);
    EXPECT_EQ(result.error, message);
    EXPECT_EQ(result.code, ExitCode::Usage);
  };
  refuse("no_such", "--ignore-config-keys names 'no_such', which " + file +
                        " does not have");
  refuse("rope_scaling.no_such",
         "--ignore-config-keys names 'rope_scaling.no_such', which " + file +
             " does not have");
  refuse("hidden_act", "--ignore-config-keys names 'hidden_act', which kiln "
                       "honours (it is \"silu\" in " +
                           file + "); change the file instead");
  refuse("rope_scaling.factor",
         "--ignore-config-keys names 'rope_scaling.factor', which kiln honours "
         "(it is 2.0 in " +
             file + "); change the file instead");
}

TEST(ConfigError, Options) {
  ModelDirectory directory(gpt2Config());
  auto message = [&](auto set) {
    ImportOptions options;
    set(options);
    Imported result = importDirectory(directory.path(), options);
    EXPECT_EQ(result.code, ExitCode::Usage);
    return result.error;
  };
  EXPECT_EQ(message([](ImportOptions &o) { o.batch = 0; }),
            "batch is 0, expected 1 to 2147483647");
  EXPECT_EQ(message([](ImportOptions &o) { o.sequenceLength = -1; }),
            "sequence length is -1, expected 1 or more");
  EXPECT_EQ(message([](ImportOptions &o) { o.sequenceLength = 17; }),
            "sequence length 17 is more than the model's positions: "
            "'n_positions' is 16 in " +
                directory.path() + "/config.json");
  EXPECT_EQ(message([](ImportOptions &o) { o.batch = 1 << 30; }),
            "batch 1073741824 times sequence length 16 exceeds the maximum of "
            "2147483647 tokens per step");
  EXPECT_EQ(message([](ImportOptions &o) { o.dropout = 1.0; }),
            "dropout is 1.000000, expected at least 0 and below 1");
}

TEST(ConfigError, Directory) {
  ModelDirectory directory;
  EXPECT_EQ(
      importDirectory(directory.path()).error,
      directory.path() +
          ": has no config.json; expected a Hugging Face model directory");
  std::string missing = directory.path() + "/missing";
  EXPECT_EQ(importDirectory(missing).error,
            missing + ": not a directory; expected a Hugging Face model "
                      "directory with a config.json");
  directory.write("config.json", "[1, 2]");
  EXPECT_EQ(importDirectory(directory.path()).error,
            directory.path() + "/config.json: expected a JSON object");
  directory.write("config.json", "{\"n_layer\": }");
  EXPECT_EQ(importDirectory(directory.path()).code, ExitCode::BadInput);
  directory.write("config.json", std::string(100000, '['));
  EXPECT_EQ(importDirectory(directory.path()).code, ExitCode::BadInput);
}

} // namespace
