//===- LoraConfigTest.cpp - Options of low-rank adapters ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/LoraConfig.h"

#include <gtest/gtest.h>

using namespace kiln::support;

namespace {

std::string problemOf(const char *options) {
  Result<LoraConfig> config = parseLoraOptions(options);
  return config.ok() ? "" : config.status().message();
}

std::string problemOfFile(const std::string &members) {
  Result<AdapterConfig> config =
      parseAdapterConfig("{\"peft_type\": \"LORA\"" + members + "}", "FILE");
  return config.ok() ? "" : config.status().message();
}

TEST(LoraConfig, ParsesOptions) {
  Result<LoraConfig> config = parseLoraOptions(
      "r=4,alpha=6.5,dropout=0.05,targets=c_attn:mlp.c_proj,rslora=on");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->rank, 4);
  EXPECT_EQ(config->alpha, 6.5);
  EXPECT_EQ(config->dropout, 0.05);
  EXPECT_EQ(config->targets,
            (std::vector<std::string>{"c_attn", "mlp.c_proj"}));
  EXPECT_EQ(config->scale(), 3.25);
  EXPECT_EQ(loraOptions(*config),
            "r=4,alpha=6.5,dropout=0.05,targets=c_attn:mlp.c_proj,rslora=on");
  EXPECT_FALSE(config->isAllLinear());
  EXPECT_TRUE(parseLoraOptions("targets=all-linear")->isAllLinear());
}

TEST(LoraConfig, HasTheDefaultsOfPeft) {
  Result<LoraConfig> config = parseLoraOptions("default");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(loraOptions(*config), "r=8,alpha=8,dropout=0");
}

TEST(LoraConfig, SortsTargets) {
  EXPECT_EQ(parseLoraOptions("targets=b:a:b")->targets,
            (std::vector<std::string>{"a", "b"}));
}

TEST(LoraConfig, RefusesOptions) {
  EXPECT_EQ(problemOf(""),
            "is empty, expected a list such as r=8,alpha=16, or default");
  EXPECT_EQ(problemOf("r=x"), "r is 'x', expected a positive number");
  EXPECT_EQ(problemOf("r=-1"), "r is -1, expected 1 to 2147483647");
  EXPECT_EQ(problemOf("r=99999999999"),
            "r is 99999999999, expected 1 to 2147483647");
  EXPECT_EQ(problemOf("alpha=1e40"),
            "alpha is 1e+40, which gives the scale 1.25e+39, expected a scale "
            "in the range of f32");
  EXPECT_EQ(problemOf("alpha=0"), "alpha is 0, expected more than 0");
  EXPECT_EQ(problemOf("alpha=inf"), "alpha is inf, expected more than 0");
  EXPECT_EQ(problemOf("dropout=1"),
            "dropout is 1, expected at least 0 and below 1");
  EXPECT_EQ(problemOf("r=1,r=2"), "'r' is given twice, expected once");
  EXPECT_EQ(problemOf("rslora=yes"), "rslora is 'yes', expected on or off");
  EXPECT_EQ(problemOf("targets="),
            "targets has '', expected the name of a layer, such as c_attn");
  EXPECT_EQ(problemOf("targets=all-linear:c_attn"),
            "targets has all-linear and other names, expected either");
  EXPECT_EQ(problemOf("dora=on"),
            "has 'dora=on', expected r=N, alpha=X, dropout=X, "
            "targets=NAME:NAME, targets=all-linear or rslora=on");
}

TEST(LoraConfig, MatchesWholeParts) {
  EXPECT_TRUE(isLoraTarget("h.0.attn.c_proj", "c_proj"));
  EXPECT_TRUE(isLoraTarget("h.0.attn.c_proj", "attn.c_proj"));
  EXPECT_TRUE(isLoraTarget("c_proj", "c_proj"));
  EXPECT_FALSE(isLoraTarget("h.0.attn.c_proj", "proj"));
  EXPECT_FALSE(isLoraTarget("proj", "c_proj"));
}

TEST(LoraConfig, ReadsWhatItWrites) {
  LoraConfig config;
  config.rank = 3;
  config.alpha = 5;
  config.targets = {"k_proj", "q_proj"};
  config.rankStabilized = true;
  std::string text = adapterConfig(config, "/models/base", true);
  EXPECT_NE(text.find("\"lora_alpha\": 5,"), std::string::npos) << text;
  EXPECT_NE(text.find("\"fan_in_fan_out\": true"), std::string::npos);
  EXPECT_NE(text.find("\"base_model_name_or_path\": \"/models/base\""),
            std::string::npos);
  Result<AdapterConfig> read = parseAdapterConfig(text, "FILE");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(loraOptions(read->lora), loraOptions(config));
  EXPECT_EQ(read->base, "/models/base");
  config.targets = {"all-linear"};
  read = parseAdapterConfig(adapterConfig(config, "", false), "FILE");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->lora.isAllLinear());
}

TEST(LoraConfig, RefusesFiles) {
  EXPECT_EQ(problemOfFile(""), "");
  EXPECT_EQ(problemOfFile(", \"use_dora\": false, \"bias\": \"none\", "
                          "\"rank_pattern\": {}, \"unknown\": 3"),
            "");
  EXPECT_EQ(problemOfFile(", \"use_dora\": true"),
            "FILE: 'use_dora' is true, which kiln does not support");
  EXPECT_EQ(problemOfFile(", \"bias\": \"all\""),
            "FILE: 'bias' is \"all\", which kiln does not support");
  EXPECT_EQ(problemOfFile(", \"modules_to_save\": [\"lm_head\"]"),
            "FILE: 'modules_to_save' is [\"lm_head\"], which kiln does not "
            "support");
  EXPECT_EQ(problemOfFile(", \"target_modules\": \".*c_attn\""),
            "FILE: 'target_modules' is the pattern '.*c_attn', expected a list "
            "of names or all-linear");
  EXPECT_EQ(problemOfFile(", \"init_lora_weights\": \"gaussian\""), "");
  EXPECT_EQ(
      problemOfFile(", \"init_lora_weights\": \"pissa\""),
      "FILE: 'init_lora_weights' is \"pissa\": this initialization changes the "
      "weights of the base model, which kiln does not support");
  EXPECT_EQ(problemOfFile(", \"lora_alpha\": -1"),
            "FILE: alpha is -1, expected more than 0");
  EXPECT_FALSE(parseAdapterConfig("{}", "FILE").ok());
  EXPECT_FALSE(parseAdapterConfig("[", "FILE").ok());
  EXPECT_FALSE(parseAdapterConfig("{\"peft_type\": \"IA3\"}", "FILE").ok());
}

} // namespace
