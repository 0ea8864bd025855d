//===- ProductsTest.cpp - Matrix products of every kind -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaToy.h"
#include "HandProgram.h"
#include "kiln/Runtime/Engine/Program.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

constexpr int64_t m = 3, n = 5, k = 4, batch = 2;

// Rows are longer than they need to be.
constexpr int64_t ld = 7, stride = 64, elements = 128;

struct Case {
  TensorType type, resultType;
  bool transA, transB;
  int64_t batch;
  bool accumulates;
  int64_t workspace;
  bool hasBias = false;
};

const char *nameOf(TensorType type) {
  return type == TensorType::F64   ? "f64"
         : type == TensorType::F32 ? "f32"
                                   : "bf16";
}

Json operand(int64_t offset, bool trans) {
  return {{"ref", device(offset)},
          {"ld", ld},
          {"trans", trans},
          {"batch_stride", stride}};
}

/// A product of inputs; its result is an input and the output. What `shift` is
/// for lies an element behind its place, and so does its bias.
Json describe(const Case &test, int64_t shift = 0) {
  constexpr int64_t bytes = 1024;
  int64_t elementBytes = tensorTypeBits(test.type) / 8;
  Json gemm = {{"op", "gemm"},
               {"name", "product"},
               {"dtype", nameOf(test.type)},
               {"result", nameOf(test.resultType)},
               {"m", m},
               {"n", n},
               {"k", k},
               {"batch", test.batch},
               {"a", operand(shift * elementBytes, test.transA)},
               {"b", operand(bytes, test.transB)},
               {"c", operand(2 * bytes, false)},
               {"beta", test.accumulates ? 1 : 0},
               {"grid", {1, 1}},
               {"flops", 0},
               {"workspace", {4 * bytes, test.workspace}},
               {"epilogue", nullptr}};
  if (test.hasBias)
    gemm["library"] = {
        {"bias",
         device(3 * bytes + shift * tensorTypeBits(test.resultType) / 8)}};
  Json inputs = Json::array(), slots = Json::array();
  const char *names[] = {"a", "b", "c", "bias"};
  for (int i = 0; i < 4; ++i) {
    inputs.push_back(value(names[i], i * bytes, elements));
    inputs.back()["dtype"] = nameOf(i >= 2 ? test.resultType : test.type);
    slots.push_back(
        slot(names[i], i == 2 ? "output" : "input", i * bytes, bytes, 0, 1));
  }
  slots.push_back(slot("w", "workspace", 4 * bytes, test.workspace, 0, 0));
  Json description = handProgram({gemm}, slots, inputs, {inputs[2]},
                                 4 * bytes + test.workspace);
  description["target"]["kind"] = "cuda";
  return description;
}

Result<std::unique_ptr<Engine>> start(const Json &description) {
  fakecuda::reset();
  Result<std::unique_ptr<Engine>> engine = cuda::createCudaEngine(
      description.dump(), nullptr, 0, toy::toyImages(), toy::fakeLibraries());
  if (engine.ok())
    if (Status status = (*engine)->start(1); !status.ok())
      return status;
  return engine;
}

void convert(TensorType from, const void *source, TensorType to, void *target) {
  convertElements(from, source, to, target, elements);
}

void check(const Case &test, int64_t shift = 0) {
  Result<std::unique_ptr<Engine>> engine = start(describe(test, shift));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  // As the operands have them, rounded to their types.
  std::vector<double> operands[4];
  std::vector<char> bytes[4];
  for (int i = 0; i < 4; ++i) {
    TensorType type = i >= 2 ? test.resultType : test.type;
    for (int64_t j = 0; j < elements; ++j)
      operands[i].push_back(std::sin(double(100 * i + j)));
    bytes[i].resize(elements * tensorTypeBits(type) / 8);
    convert(TensorType::F64, operands[i].data(), type, bytes[i].data());
    convert(type, bytes[i].data(), TensorType::F64, operands[i].data());
  }
  auto at = [&](int i, int64_t entry, int64_t row, int64_t column, bool trans) {
    if (trans)
      std::swap(row, column);
    return operands[i][std::size_t(entry * stride + row * ld + column +
                                   (i == 0 ? shift : 0))];
  };
  double tolerance = test.resultType == TensorType::BF16 ? 0x1.1p-6 : 1e-5;
  // The second and third run are those of the graph.
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < 4; ++i)
      std::memcpy((*engine)->inputData(0, std::size_t(i)), bytes[i].data(),
                  bytes[i].size());
    Status status = (*engine)->run(0);
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<double> result(elements);
    convert(test.resultType, (*engine)->outputData(0, 0), TensorType::F64,
            result.data());
    for (int64_t entry = 0; entry < test.batch; ++entry)
      for (int64_t row = 0; row < m; ++row)
        for (int64_t column = 0; column < ld; ++column) {
          double expected = test.accumulates || column >= n
                                ? at(2, entry, row, column, false)
                                : 0;
          for (int64_t i = 0; i < k && column < n; ++i)
            expected += at(0, entry, row, i, test.transA) *
                        at(1, entry, i, column, test.transB);
          if (test.hasBias && column < n)
            expected += operands[3][std::size_t(column + shift)];
          EXPECT_NEAR(result[std::size_t(entry * stride + row * ld + column)],
                      expected, tolerance);
        }
  }
  engine->reset();
  EXPECT_TRUE(fakecuda::violations().empty()) << fakecuda::violations().front();
  EXPECT_TRUE(fakecuda::live().empty());
}

constexpr std::pair<TensorType, TensorType> kinds[] = {
    {TensorType::F32, TensorType::F32},
    {TensorType::F64, TensorType::F64},
    {TensorType::BF16, TensorType::BF16},
    {TensorType::BF16, TensorType::F32}};

TEST(ProductsTest, OfAllKinds) {
  for (auto [type, resultType] : kinds)
    for (bool transA : {false, true})
      for (bool transB : {false, true})
        for (int64_t count : {int64_t(1), batch})
          for (bool accumulates : {false, true})
            check({type, resultType, transA, transB, count, accumulates, 4096});
}

TEST(ProductsTest, WithABias) {
  for (auto [type, resultType] : kinds)
    for (bool transA : {false, true})
      for (bool transB : {false, true})
        for (int64_t shift : {0, 1})
          if (type != TensorType::F64)
            check({type, resultType, transA, transB, 1, false, 4096, true},
                  shift);
}

/// A choice is of one epilogue, and serves biases in several places.
TEST(ProductsTest, WithSeveralBiases) {
  Case test = {TensorType::F32, TensorType::F32, false, false, 1, false, 4096};
  Json description = describe(test);
  test.hasBias = true;
  Json first = describe(test)["programs"]["run"]["commands"][0];
  Json second = first;
  second["library"]["bias"] = device(3 * 1024 + 256);
  Json &commands = description["programs"]["run"]["commands"];
  for (const Json &command : {first, second})
    commands.push_back(command);
  Result<std::unique_ptr<Engine>> engine = start(description);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  std::vector<float> zeros(elements, 0), bias(elements, 3);
  for (std::size_t i = 64; i < 64 + n; ++i)
    bias[i] = 5;
  for (std::size_t i = 0; i < 4; ++i)
    std::memcpy((*engine)->inputData(0, i), (i == 3 ? bias : zeros).data(),
                4 * elements);
  ASSERT_TRUE((*engine)->run(0).ok());
  float result;
  std::memcpy(&result, (*engine)->outputData(0, 0), sizeof(result));
  EXPECT_EQ(result, 5);
  engine->reset();
  EXPECT_TRUE(fakecuda::violations().empty()) << fakecuda::violations().front();
}

TEST(ProductsTest, RefusesABiasElsewhere) {
  auto expect = [](Case test, Json library, const char *expected) {
    Json description = describe(test);
    for (auto &[name, program] : description["programs"].items())
      program["commands"][0]["library"] = library;
    Result<ProgramFile> file = parseProgramFile(description.dump(), 0);
    ASSERT_FALSE(file.ok());
    EXPECT_NE(file.status().message().find(expected), std::string::npos)
        << file.status().message();
  };
  Case good = {TensorType::F32, TensorType::F32, false, false, 1, false, 4096};
  Case batched = good, adding = good, wide = good;
  batched.batch = 2;
  adding.accumulates = true;
  wide.type = wide.resultType = TensorType::F64;
  Json bias = {{"bias", device(3 * 1024)}};
  expect(batched, bias, "needs a batch of 1 and a beta of 0");
  expect(adding, bias, "needs a batch of 1 and a beta of 0");
  expect(wide, bias, "needs operands of bf16 or f32");
  expect(good, {{"bias", device(8 * 1024)}}, "beyond the arena");
  expect(good, {{"bias", {0, 0, "host"}}}, "");
  expect(good, Json::object(), "bias");
  expect(good, 3, "");
}

TEST(ProductsTest, WithoutAWorkspace) {
  for (auto [type, resultType] : kinds)
    check({type, resultType, false, true, 1, false, 0});
}

TEST(ProductsTest, OfHardlyAlignedMatrices) {
  for (auto [type, resultType] : kinds)
    check({type, resultType, true, false, 1, true, 4096}, 1);
}

} // namespace
