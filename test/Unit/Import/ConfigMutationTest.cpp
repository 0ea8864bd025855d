//===- ConfigMutationTest.cpp - Tests of damaged configurations -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For any contents of config.json, the import must return a module that
// verifies or a one-line error that names the file.
//
//===----------------------------------------------------------------------===//

#include "TestModel.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <random>

using namespace kiln;
using namespace kiln::test;

namespace {

class ConfigMutation : public testing::Test {
protected:
  void expectSound(const std::string &text) {
    directory.write("config.json", text);
    Imported result = importDirectory(directory.path());
    if (result.module) {
      EXPECT_TRUE(succeeded(mlir::verify(*result.module))) << text;
      ++accepted;
      return;
    }
    ++refused;
    EXPECT_EQ(result.code, ExitCode::BadInput) << text;
    EXPECT_NE(result.error.find(directory.path()), std::string::npos) << text;
    EXPECT_EQ(result.error.find('\n'), std::string::npos) << text;
    EXPECT_LT(result.error.size(), 1000u) << text;
    EXPECT_TRUE(llvm::all_of(result.error, llvm::isPrint) ||
                result.error.find("byte") != std::string::npos)
        << text;
  }

  void mutate(nlohmann::json config) {
    // A single layer keeps the imports fast.
    for (const char *key : {"n_layer", "num_hidden_layers"})
      if (config.contains(key))
        config[key] = 1;
    const std::string text = config.dump();
    for (std::size_t length = 0; length < text.size(); ++length)
      expectSound(text.substr(0, length));
    // Bytes that are likely to change the meaning: digits, JSON punctuation, a
    // control character, and a byte that never occurs in UTF-8.
    const std::string bytes = "09-.eE\"{}[],:\\ntfx \x01\xff";
    std::mt19937 random(17);
    for (int round = 0; round < 700; ++round) {
      std::string damaged = text;
      for (int edits = 1 + random() % 3; edits > 0; --edits) {
        std::size_t at = random() % damaged.size();
        char byte = bytes[random() % bytes.size()];
        switch (random() % 3) {
        case 0:
          damaged[at] = byte;
          break;
        case 1:
          damaged.insert(at, 1, byte);
          break;
        default:
          damaged.erase(at, 1);
        }
      }
      expectSound(damaged);
    }
    EXPECT_GT(accepted, 5);
    EXPECT_GT(refused, 200);
  }

  ModelDirectory directory;
  int accepted = 0, refused = 0;
};

TEST_F(ConfigMutation, Gpt2) { mutate(gpt2Config()); }

TEST_F(ConfigMutation, Llama) {
  nlohmann::json config = llamaConfig();
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  mutate(config);
}

/// For each key, replaces its value by values of every JSON type.
TEST_F(ConfigMutation, WrongTypes) {
  const nlohmann::json values[] = {
      nullptr,
      true,
      false,
      0,
      -1,
      1,
      3,
      1e308,
      -0.0,
      0.5,
      INT64_MAX,
      INT64_MIN,
      UINT64_MAX,
      "",
      "gelu",
      nlohmann::json::array(),
      nlohmann::json::object(),
      nlohmann::json::array({nlohmann::json()}),
      nlohmann::json{{"rope_type", nlohmann::json::array()}}};
  for (const nlohmann::json &base :
       {gpt2Config(), llamaConfig(), mistralConfig(), qwen2Config()})
    for (const auto &entry : base.items())
      for (const nlohmann::json &value : values) {
        nlohmann::json config = base;
        config[entry.key()] = value;
        expectSound(config.dump());
      }
}

} // namespace
