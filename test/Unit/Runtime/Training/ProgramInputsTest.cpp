//===- ProgramInputsTest.cpp - Tests of named program inputs --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramInputs.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

/// An engine that provides tensors and computes nothing.
class StorageEngine final : public Engine {
public:
  explicit StorageEngine(ProgramInfo program, support::Mesh mesh = {}) {
    description_.mesh = std::move(mesh);
    description_.programs.push_back(std::move(program));
    for (const ValueInfo &value : description_.programs[0].inputs)
      storage_.emplace_back(size_t(value.bytes() + 8));
    for (const ValueInfo &value : description_.programs[0].outputs)
      outputs_.emplace_back(size_t(value.bytes() + 8));
  }
  const Description &description() const override { return description_; }
  Status start(int) override { return Status(); }
  int threads() const override { return 1; }
  char *stateData(size_t) override { return nullptr; }
  char *inputData(size_t, size_t i) override { return storage_[i].data(); }
  char *outputData(size_t, size_t i) override { return outputs_[i].data(); }
  Status run(size_t) override { return Status(); }

  template <typename T> const T *input(size_t i) {
    return reinterpret_cast<const T *>(storage_[i].data());
  }

private:
  Description description_;
  std::vector<std::vector<char>> storage_, outputs_;
};

ProgramInfo trainProgram() {
  return {"train",
          {0},
          {{{"tokens", ElementType::I32, {4, 3}}},
           {{"targets", ElementType::I32, {4, 3}}},
           {{"rng", ElementType::I64, {2, 3}}},
           {{"loss_scale", ElementType::F64, {}}},
           {{"lr", ElementType::F64, {}}}},
          {{"loss", ElementType::F64, {}}}};
}

SequenceSource counting() {
  SequenceSource source;
  source.read = [](int64_t index, int64_t length, int32_t *tokens,
                   int32_t *targets) {
    for (int64_t i = 0; i < length; ++i) {
      tokens[i] = int32_t(index * 100 + i);
      targets[i] = i == 0 ? ignoredTarget : int32_t(index * 100 + i + 1);
    }
    return Status();
  };
  source.number = [](int64_t index, int64_t) { return index % 7; };
  return source;
}

TEST(ProgramInputsTest, WritesABatch) {
  StorageEngine engine(trainProgram());
  Result<ProgramInputs> inputs = ProgramInputs::bind(engine, 0);
  ASSERT_TRUE(inputs.ok()) << inputs.status().message();
  Result<int64_t> counted = inputs->writeBatch(counting(), 5, 4, 42, 9);
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(*counted, 8);
  EXPECT_EQ(engine.input<int32_t>(0)[0], 500);
  EXPECT_EQ(engine.input<int32_t>(0)[11], 802);
  EXPECT_EQ(engine.input<int32_t>(1)[11], 803);
  EXPECT_EQ(engine.input<double>(3)[0], 1.0 / 8);
  const int64_t rng[] = {42, 9, 0, 42, 9, 2};
  EXPECT_EQ(std::memcmp(engine.input<int64_t>(2), rng, sizeof(rng)), 0);
  inputs->writeUpdate(0.25, 10, 1.0, 1024);
  EXPECT_EQ(engine.input<double>(4)[0], 0.25);
}

TEST(ProgramInputsTest, MissingRowsDoNotCount) {
  StorageEngine engine(trainProgram());
  Result<ProgramInputs> inputs = ProgramInputs::bind(engine, 0);
  ASSERT_TRUE(inputs.ok());
  Result<int64_t> counted = inputs->writeBatch(counting(), 0, 1, 0, 0);
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(*counted, 2);
  EXPECT_EQ(engine.input<int32_t>(1)[3], ignoredTarget);
  EXPECT_EQ(engine.input<int32_t>(0)[3], 0);
}

TEST(ProgramInputsTest, WritesTheIndexOfTheRank) {
  ProgramInfo program = trainProgram();
  program.inputs.push_back({{"tp_rank", ElementType::I32, {}}});
  support::Mesh mesh = *support::parseMesh("dp=2,tp=3");
  for (int32_t rank = 0; rank < 6; ++rank)
    for (bool isPrompt : {false, true}) {
      StorageEngine engine(program, mesh);
      Result<ProgramInputs> inputs = ProgramInputs::bind(engine, 0, rank);
      ASSERT_TRUE(inputs.ok()) << inputs.status().message();
      int32_t token = 3;
      if (isPrompt)
        inputs->writePrompt(&token, 1, nullptr);
      else
        ASSERT_TRUE(inputs->writeBatch(counting(), 0, 4, 0, 0).ok());
      EXPECT_EQ(engine.input<int32_t>(5)[0], rank % 3);
    }
  program.inputs.back().type = ElementType::I64;
  StorageEngine wide(program, mesh);
  EXPECT_FALSE(ProgramInputs::bind(wide, 0).ok());
}

TEST(ProgramInputsTest, RefusesWhatItDoesNotKnow) {
  ProgramInfo unknown = trainProgram();
  unknown.inputs[4].name = "temperature";
  StorageEngine engine(unknown);
  Result<ProgramInputs> inputs = ProgramInputs::bind(engine, 0);
  ASSERT_FALSE(inputs.ok());
  EXPECT_NE(inputs.status().message().find("'temperature'"), std::string::npos);
}

TEST(ProgramInputsTest, RefusesOtherTypesAndShapes) {
  for (int change = 0; change < 4; ++change) {
    ProgramInfo program = trainProgram();
    if (change == 0)
      program.inputs[0].type = ElementType::I64;
    if (change == 1)
      program.inputs[1].shape = {4, 4};
    if (change == 2)
      program.inputs[2].shape = {3, 3};
    if (change == 3)
      program.outputs[0].type = ElementType::F32;
    StorageEngine engine(program);
    EXPECT_FALSE(ProgramInputs::bind(engine, 0).ok()) << change;
  }
}

} // namespace
