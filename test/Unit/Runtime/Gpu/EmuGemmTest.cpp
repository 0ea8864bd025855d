//===- EmuGemmTest.cpp - Tests of the emulated GPU's matmuls --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The emulated vendor library computes the same bits as the CPU engine, uses
// only its workspace, and reads no uninitialised bytes.
//
//===----------------------------------------------------------------------===//

#include "HandProgram.h"
#include "kiln/Abi/GemmWorkspace.h"
#include "kiln/Runtime/Engine/CommandEngine.h"
#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Runtime/Gpu/EmuEngine.h"
#include "kiln/Support/ElementConversion.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace kiln::abi;
using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr int64_t m = 150, n = 90, k = 300, ld = 304, maxThreads = 2;
constexpr int64_t matrixBytes = 4 * 304 * 304;

const char *nameOf(ElementType type) {
  return type == ElementType::F32 ? "f32" : "bf16";
}

/// Returns a program that computes c = a b^T, c + a b^T, or a b^T plus a bias.
/// The bias is the first row of b. With a bias, b must have the type of c.
Json describe(const char *kind, ElementType type, ElementType resultType,
              bool accumulates, int64_t workspaceBytes, bool hasBias = false) {
  auto operand = [&](int64_t index, bool trans) {
    return Json{{"ref", device(index * matrixBytes)},
                {"ld", ld},
                {"trans", trans},
                {"batch_stride", 0}};
  };
  Json gemm = {{"op", "gemm"},
               {"name", "product"},
               {"dtype", nameOf(type)},
               {"result", nameOf(resultType)},
               {"m", m},
               {"n", n},
               {"k", k},
               {"batch", 1},
               {"a", operand(0, false)},
               {"b", operand(1, true)},
               {"c", operand(2, false)},
               {"beta", accumulates ? 1 : 0},
               {"grid", {2, 1}},
               {"flops", 0},
               {"workspace", {3 * matrixBytes, workspaceBytes}},
               {"epilogue", nullptr}};
  if (hasBias)
    gemm["library"] = {{"epilogue", "bias"}, {"bias", device(matrixBytes)}};
  Json inputs = Json::array(), slots = Json::array();
  const char *names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i) {
    bool isInput = i < 2 || accumulates;
    slots.push_back(slot(names[i], isInput ? "input" : "output",
                         i * matrixBytes, matrixBytes, 0, 1));
    Json entry = value(names[i], i * matrixBytes, (i == 1 ? n : m) * ld);
    entry["dtype"] = nameOf(i == 2 ? resultType : type);
    if (isInput)
      inputs.push_back(entry);
  }
  slots.push_back(
      slot("w", "workspace", 3 * matrixBytes, workspaceBytes, 0, 0));
  // If the gemm accumulates, c is an input, and the output consists of whole
  // rows of c including padding. Otherwise, the output is only the first row of
  // c.
  Json result = value("c", 2 * matrixBytes, accumulates ? m * ld : n);
  result["dtype"] = nameOf(resultType);
  Json description = handProgram({gemm}, slots, inputs, {result},
                                 3 * matrixBytes + workspaceBytes);
  description["target"]["kind"] = kind;
  description["options"]["max_threads"] = maxThreads;
  return withQueues(std::move(description));
}

std::vector<char> run(const Json &description, int threads) {
  bool isCpu = description["target"]["kind"] == "cpu";
  Result<std::unique_ptr<Engine>> engine =
      isCpu ? createCommandEngine(description.dump(), nullptr, 0)
            : createEmuEngine(description.dump(), nullptr, 0);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  if (!engine.ok())
    return {};
  Status status = (*engine)->start(threads);
  EXPECT_TRUE(status.ok()) << status.message();
  const ProgramInfo &info = (*engine)->description().programs[0];
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    std::vector<double> values;
    for (int64_t j = 0; j < info.inputs[i].elements(); ++j)
      values.push_back(std::sin(double(j) + 1000 * double(i)));
    convertElements(ElementType::F64, values.data(), info.inputs[i].type,
                    (*engine)->inputData(0, i), values.size());
  }
  status = (*engine)->run(0);
  EXPECT_TRUE(status.ok()) << status.message();
  const char *data = (*engine)->outputData(0, 0);
  return {data, data + info.outputs[0].bytes()};
}

constexpr std::pair<ElementType, ElementType> kinds[] = {
    {ElementType::F32, ElementType::F32},
    {ElementType::BF16, ElementType::BF16},
    {ElementType::BF16, ElementType::F32}};

int64_t scratchOf(ElementType type, ElementType resultType) {
  if (type != ElementType::BF16)
    return 0;
  int64_t bytes =
      narrowGemmBytes({m, n, k, 1, 2, 1}, resultType == ElementType::BF16);
  return (bytes + 63) / 64 * 64;
}

TEST(EmuGemmTest, HasTheBitsOfTheCpu) {
  for (const auto &kind : kinds)
    for (bool accumulates : {false, true}) {
      int64_t scratch = scratchOf(kind.first, kind.second);
      auto describeFor = [&](const char *target, int64_t workspace) {
        return describe(target, kind.first, kind.second, accumulates,
                        workspace);
      };
      std::vector<char> expected = run(describeFor("cpu", 2 * scratch), 1);
      EXPECT_EQ(run(describeFor("cpu", 2 * scratch), 2), expected);
      // The smaller workspace suffices for one thread, the larger for two
      // threads.
      for (int64_t workspace : {scratch, 3 * scratch})
        for (int threads : {1, 2})
          EXPECT_EQ(run(describeFor("cuda-emu", workspace), threads), expected);
    }
}

/// Checks that the bias is added to the f32 sum, so that the result is rounded
/// only once.
TEST(EmuGemmTest, AddsABiasBeforeItRounds) {
  int64_t scratch = scratchOf(ElementType::BF16, ElementType::BF16);
  auto elementsOf = [](const std::vector<char> &bytes, ElementType type) {
    std::vector<float> values(bytes.size() * 8 / bitsOf(type));
    convertElements(type, bytes.data(), ElementType::F32, values.data(),
                    int64_t(values.size()));
    return values;
  };
  auto product = [&](ElementType resultType, bool hasBias, int threads) {
    return elementsOf(run(describe("cuda-emu", ElementType::BF16, resultType,
                                   false, 2 * scratch, hasBias),
                          threads),
                      resultType);
  };
  std::vector<float> sums = product(ElementType::F32, false, 1);
  std::vector<float> rounded = product(ElementType::BF16, true, 1);
  EXPECT_EQ(product(ElementType::BF16, true, 2), rounded);
  ASSERT_EQ(rounded.size(), std::size_t(n));
  for (int64_t i = 0; i < n; ++i) {
    // The bias is the first row of b, rounded to bf16.
    double value = std::sin(double(i) + 1000);
    uint16_t bias, expected;
    convertElements(ElementType::F64, &value, ElementType::BF16, &bias, 1);
    float wide;
    convertElements(ElementType::BF16, &bias, ElementType::F32, &wide, 1);
    float sum = sums[std::size_t(i)] + wide;
    convertElements(ElementType::F32, &sum, ElementType::BF16, &expected, 1);
    convertElements(ElementType::BF16, &expected, ElementType::F32, &wide, 1);
    EXPECT_EQ(rounded[std::size_t(i)], wide) << i;
  }
}

TEST(EmuGemmTest, NeedsItsWorkspace) {
  int64_t scratch = scratchOf(ElementType::BF16, ElementType::BF16);
  auto status = [&](const char *kind, int64_t workspace) {
    Json description =
        describe(kind, ElementType::BF16, ElementType::BF16, false, workspace);
    return (std::strcmp(kind, "cpu")
                ? createEmuEngine(description.dump(), nullptr, 0)
                : createCommandEngine(description.dump(), nullptr, 0))
        .status();
  };
  std::string expected = "bytes for this gemm, expected at least ";
  EXPECT_NE(status("cpu", 2 * scratch - 64)
                .message()
                .find(expected + std::to_string(2 * scratch)),
            std::string::npos);
  EXPECT_NE(status("cuda-emu", scratch - 64)
                .message()
                .find(expected + std::to_string(scratch)),
            std::string::npos);
  EXPECT_TRUE(status("cuda-emu", scratch).ok());
}

TEST(EmuGemmTest, AnyReplacedValueIsHandled) {
  const Json replacements[] = {nullptr,       -1, INT64_MAX, "bf16",
                               Json::array(), 0,  1e300,     Json::object()};
  for (const char *kind : {"cpu", "cuda-emu"}) {
    Json json = describe(kind, ElementType::BF16, ElementType::F32, true,
                         2 * scratchOf(ElementType::BF16, ElementType::F32));
    if (!std::strcmp(kind, "cuda-emu"))
      json = describe(kind, ElementType::BF16, ElementType::F32, false,
                      2 * scratchOf(ElementType::BF16, ElementType::F32), true);
    Json flat = json["programs"].flatten();
    for (auto &[path, unused] : flat.items()) {
      for (const Json &replacement : replacements) {
        Json damaged = json;
        damaged["programs"][Json::json_pointer(path)] = replacement;
        Result<ProgramFile> file = parseProgramFile(damaged.dump(), 0);
        EXPECT_TRUE(file.ok() || !file.status().message().empty());
      }
    }
  }
}

} // namespace
