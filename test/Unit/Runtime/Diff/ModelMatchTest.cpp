//===- ModelMatchTest.cpp - Tests of the compatibility check --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelMatch.h"
#include "kiln/Runtime/Diff/Diff.h"

#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

TrainedModel model() {
  TrainedModel model;
  model.type = "gpt2";
  model.vocabulary = 10;
  model.batch = 2;
  model.length = 4;
  model.lastStep = 3;
  model.build = {{"microbatches", "1"}, {"optimizer", "sgd"}};
  model.tensors = {{"w", "parameter", ElementType::F32, {10, 4}},
                   {"w.m", "optimizer", ElementType::F32, {10, 4}}};
  return model;
}

std::string refusal(const TrainedModel &a, const TrainedModel &b) {
  Result<std::vector<TensorPair>> pairs = matchModels(a, b);
  EXPECT_FALSE(pairs.ok());
  if (pairs.ok())
    return "";
  EXPECT_EQ(pairs.status().code(), ExitCode::BadInput);
  EXPECT_EQ(pairs.status().message().find('\n'), std::string::npos);
  return pairs.status().message();
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(ModelMatchTest, StatesAreMatchedByName) {
  TrainedModel a = model(), b = model();
  std::swap(b.tensors[0], b.tensors[1]);
  Result<std::vector<TensorPair>> pairs = matchModels(a, b);
  ASSERT_TRUE(pairs.ok());
  ASSERT_EQ(pairs->size(), 2u);
  EXPECT_EQ((*pairs)[0].a, 0u);
  EXPECT_EQ((*pairs)[0].b, 1u);
}

TEST(ModelMatchTest, GradientsOfOneSideAloneAreLeftOut) {
  TrainedModel a = model(), b = model();
  a.tensors.push_back({"gradient:w", "gradient", ElementType::F32, {10, 4}});
  EXPECT_EQ(matchModels(a, b)->size(), 2u);
  EXPECT_EQ(matchModels(b, a)->size(), 2u);
  EXPECT_EQ(matchModels(a, a)->size(), 3u);
}

TEST(ModelMatchTest, OtherModelsAreRefusedInOneLine) {
  TrainedModel other = model();
  other.type = "llama";
  EXPECT_TRUE(contains(refusal(model(), other),
                       "the model is 'gpt2' in A and 'llama' in B"));
  other = model();
  other.batch = 3;
  EXPECT_TRUE(
      contains(refusal(model(), other), "the batch is 2 in A and 3 in B"));
  other = model();
  other.lastStep = 5;
  EXPECT_TRUE(contains(refusal(model(), other), "the last step is 3 in A"));
  other = model();
  other.tensors[0].shape = {4, 10};
  EXPECT_TRUE(contains(refusal(model(), other),
                       "'w' is F32 [10, 4] in A and F32 [4, 10] in B"));
  other = model();
  other.tensors[1].type = ElementType::F64;
  EXPECT_TRUE(contains(refusal(model(), other), "F64 [10, 4] in B"));
  other = model();
  other.tensors.pop_back();
  EXPECT_TRUE(contains(refusal(model(), other), "missing in B"));
  EXPECT_TRUE(contains(refusal(other, model()), "missing in A"));
}

TEST(ModelMatchTest, OtherFlagsAreSaid) {
  TrainedModel other = model();
  other.build["microbatches"] = "2";
  std::vector<std::string> lines = differentBuilds(model(), other);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "microbatches: A 1, B 2");
}

Result<DiffArguments> parse(std::vector<const char *> words) {
  words.insert(words.begin(), "kiln-diff");
  return parseDiffArguments(int(words.size()), words.data());
}

TEST(DiffArgumentsTest, FlagsGoToBothOrToOne) {
  Result<DiffArguments> parsed =
      parse({"a", "b", "--data=f", "--only-b=--threads=1", "--seed", "3",
             "--tolerance=rounding"});
  ASSERT_TRUE(parsed.ok());
  const DiffOptions &options = parsed->options;
  EXPECT_EQ(options.pathA, "a");
  EXPECT_EQ(options.pathB, "b");
  EXPECT_TRUE(options.allowRounding);
  EXPECT_EQ(options.flagsA,
            (std::vector<std::string>{"--data=f", "--seed", "3"}));
  EXPECT_EQ(options.flagsB, (std::vector<std::string>{"--data=f", "--seed", "3",
                                                      "--threads=1"}));
}

TEST(DiffArgumentsTest, WrongLinesAreUsageErrors) {
  for (std::vector<const char *> words :
       std::vector<std::vector<const char *>>{{},
                                              {"a"},
                                              {"a", "--steps=1"},
                                              {"--steps=1", "a", "b"},
                                              {"a", "b", "--tolerance=some"},
                                              {"a", "b", "--tolerance"},
                                              {"a", "b", "--only-a"}}) {
    Result<DiffArguments> parsed = parse(words);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.status().code(), ExitCode::Usage);
    EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos);
  }
  EXPECT_TRUE(parse({"--help"})->help);
}

} // namespace
