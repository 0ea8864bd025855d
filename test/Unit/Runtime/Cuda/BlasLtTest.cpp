//===- BlasLtTest.cpp - Tests of matmuls through cuBLASLt -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaToy.h"
#include "HandProgram.h"
#include "kiln/Runtime/Engine/Program.h"
#include "kiln/Support/ElementConversion.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace kiln::abi;
using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr int64_t m = 3, n = 5, k = 4, batch = 2;

// The leading dimension includes padding.
constexpr int64_t ld = 9, stride = 64, elements = 128;

struct Case {
  ElementType type, resultType;
  bool transA, transB;
  int64_t batch;
  bool accumulates;
  int64_t workspace;
  GemmEpilogue epilogue = GemmEpilogue::None;
  int64_t columns = n;
};

const char *nameOf(ElementType type) {
  return type == ElementType::F64   ? "f64"
         : type == ElementType::F32 ? "f32"
                                    : "bf16";
}

Json operand(int64_t offset, bool trans) {
  return {{"ref", device(offset)},
          {"ld", ld},
          {"trans", trans},
          {"batch_stride", stride}};
}

/// Returns a program with one gemm. Its result, bias and aux are both inputs
/// and outputs. The operand 'a' and the bias begin `shift` elements after the
/// start of their slots.
Json describe(const Case &test, int64_t shift = 0) {
  constexpr int64_t bytes = 1024;
  int64_t elementBytes = bitsOf(test.type) / 8;
  Json gemm = {{"op", "gemm"},
               {"name", "product"},
               {"dtype", nameOf(test.type)},
               {"result", nameOf(test.resultType)},
               {"m", m},
               {"n", test.columns},
               {"k", k},
               {"batch", test.batch},
               {"a", operand(shift * elementBytes, test.transA)},
               {"b", operand(bytes, test.transB)},
               {"c", operand(2 * bytes, false)},
               {"beta", test.accumulates ? 1 : 0},
               {"grid", {1, 1}},
               {"flops", 0},
               {"workspace", {5 * bytes, test.workspace}},
               {"epilogue", nullptr}};
  if (test.epilogue != GemmEpilogue::None)
    gemm["library"] = {{"epilogue", nameOf(test.epilogue)}};
  if (hasBias(test.epilogue))
    gemm["library"]["bias"] =
        device(3 * bytes + shift * bitsOf(test.resultType) / 8);
  if (hasAux(test.epilogue))
    gemm["library"]["aux"] = device(4 * bytes);
  Json inputs = Json::array(), slots = Json::array();
  const char *names[] = {"a", "b", "c", "bias", "aux"};
  for (int i = 0; i < 5; ++i) {
    inputs.push_back(value(names[i], i * bytes, elements));
    inputs.back()["dtype"] = nameOf(i >= 2 ? test.resultType : test.type);
    slots.push_back(
        slot(names[i], i >= 2 ? "output" : "input", i * bytes, bytes, 0, 1));
  }
  slots.push_back(slot("w", "workspace", 5 * bytes, test.workspace, 0, 0));
  Json description =
      handProgram({gemm}, slots, inputs, {inputs[2], inputs[3], inputs[4]},
                  5 * bytes + test.workspace);
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

void convert(ElementType from, const void *source, ElementType to,
             void *target) {
  convertElements(from, source, to, target, elements);
}

double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// The expected results of a case.
struct Expected {
  const Case &test;
  const std::vector<double> (&operands)[5];
  int64_t shift;

  double at(int i, int64_t entry, int64_t row, int64_t column,
            bool trans) const {
    if (trans)
      std::swap(row, column);
    return operands[i][std::size_t(entry * stride + row * ld + column +
                                   (i == 0 ? shift : 0))];
  }
  double bias(int64_t i) const { return operands[3][std::size_t(i + shift)]; }
  /// Returns an element of the matmul plus c and the bias. The epilogues with
  /// gelu apply gelu to this value.
  double sum(int64_t entry, int64_t row, int64_t column) const {
    double sum = test.accumulates ? at(2, entry, row, column, false) : 0;
    for (int64_t i = 0; i < k; ++i)
      sum += at(0, entry, row, i, test.transA) *
             at(1, entry, i, column, test.transB);
    return hasBias(test.epilogue) && !writesBias(test.epilogue)
               ? sum + bias(column)
               : sum;
  }
  double result(int64_t entry, int64_t row, int64_t column) const {
    if (column >= test.columns)
      return at(2, entry, row, column, false);
    double value = sum(entry, row, column);
    if (test.epilogue == GemmEpilogue::GeluGrad) {
      double u = operands[4][std::size_t(row * test.columns + column)];
      return value * (gelu(u + 1e-5) - gelu(u - 1e-5)) / 2e-5;
    }
    return usesGelu(test.epilogue) ? gelu(value) : value;
  }
  double biasGrad(int64_t place) const {
    int64_t index = place - shift;
    bool ofA = test.epilogue == GemmEpilogue::BiasGradA;
    if (!writesBias(test.epilogue) || index < 0 ||
        index >= biasLength(test.epilogue, m, test.columns))
      return operands[3][std::size_t(place)];
    double sum = 0;
    for (int64_t i = 0; i < k; ++i)
      sum += ofA ? at(0, 0, index, i, test.transA)
                 : at(1, 0, i, index, test.transB);
    return sum;
  }
  double aux(int64_t place) const {
    if (!writesAux(test.epilogue) || place >= m * test.columns)
      return operands[4][std::size_t(place)];
    return sum(0, place / test.columns, place % test.columns);
  }
};

void check(const Case &test, int64_t shift = 0) {
  Result<std::unique_ptr<Engine>> engine = start(describe(test, shift));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  // The values of the operands, rounded to their types.
  std::vector<double> operands[5];
  std::vector<char> bytes[5];
  for (int i = 0; i < 5; ++i) {
    ElementType type = i >= 2 ? test.resultType : test.type;
    for (int64_t j = 0; j < elements; ++j)
      operands[i].push_back(std::sin(double(100 * i + j)));
    bytes[i].resize(elements * bitsOf(type) / 8);
    convert(ElementType::F64, operands[i].data(), type, bytes[i].data());
    convert(type, bytes[i].data(), ElementType::F64, operands[i].data());
  }
  Expected expected = {test, operands, shift};
  double tolerance = test.resultType == ElementType::BF16 ? 0x1.1p-6 : 1e-5;
  // The second and third run launch the graph.
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < 5; ++i)
      std::memcpy((*engine)->inputData(0, std::size_t(i)), bytes[i].data(),
                  bytes[i].size());
    Status status = (*engine)->run(0);
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<double> outputs[3];
    for (std::size_t i = 0; i < 3; ++i) {
      outputs[i].resize(elements);
      convert(test.resultType, (*engine)->outputData(0, i), ElementType::F64,
              outputs[i].data());
    }
    for (int64_t entry = 0; entry < test.batch; ++entry)
      for (int64_t row = 0; row < m; ++row)
        for (int64_t column = 0; column < ld; ++column)
          EXPECT_NEAR(
              outputs[0][std::size_t(entry * stride + row * ld + column)],
              expected.result(entry, row, column), tolerance);
    for (int64_t i = 0; i < elements; ++i) {
      EXPECT_NEAR(outputs[1][std::size_t(i)], expected.biasGrad(i), tolerance);
      EXPECT_NEAR(outputs[2][std::size_t(i)], expected.aux(i), tolerance);
    }
  }
  engine->reset();
  EXPECT_TRUE(fakecuda::violations().empty()) << fakecuda::violations().front();
  EXPECT_TRUE(fakecuda::live().empty());
}

constexpr std::pair<ElementType, ElementType> kinds[] = {
    {ElementType::F32, ElementType::F32},
    {ElementType::F64, ElementType::F64},
    {ElementType::BF16, ElementType::BF16},
    {ElementType::BF16, ElementType::F32}};

TEST(BlasLtTest, OfAllKinds) {
  for (auto [type, resultType] : kinds)
    for (bool transA : {false, true})
      for (bool transB : {false, true})
        for (int64_t count : {int64_t(1), batch})
          for (bool accumulates : {false, true})
            check({type, resultType, transA, transB, count, accumulates, 4096});
}

/// Tests all epilogues with all transpositions of the operands. cuBLASLt
/// requires that the leading dimension of aux is a multiple of 8.
TEST(BlasLtTest, WithEpilogues) {
  for (auto [type, resultType] : kinds)
    for (int e = 1; e <= int(GemmEpilogue::BiasGradB); ++e)
      for (bool transA : {false, true})
        for (bool transB : {false, true})
          for (int64_t shift : {0, 1}) {
            auto epilogue = GemmEpilogue(e);
            if (type == ElementType::F64 ||
                (usesGelu(epilogue) && type != resultType))
              continue;
            SCOPED_TRACE(nameOf(epilogue));
            check({type, resultType, transA, transB, 1, false, 4096, epilogue,
                   hasAux(epilogue) ? 8 : n},
                  shift);
          }
}

/// Runs three GEMMs: one without an epilogue, and two with biases at different
/// addresses. The algorithm is chosen once for the two GEMMs with a bias, and
/// once for the GEMM without a bias.
TEST(BlasLtTest, WithSeveralBiases) {
  Case test = {
      ElementType::F32, ElementType::F32, false, false, 1, false, 4096};
  Json description = describe(test);
  test.epilogue = GemmEpilogue::Bias;
  Json first = toy::commandsOf(describe(test)["programs"]["run"])[0];
  Json second = first;
  second["library"]["bias"] = device(3 * 1024 + 256);
  Json &commands = toy::commandsOf(description["programs"]["run"]);
  for (const Json &command : {first, second})
    commands.push_back(command);
  Result<std::unique_ptr<Engine>> engine = start(description);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  std::vector<float> zeros(elements, 0), bias(elements, 3);
  for (std::size_t i = 64; i < 64 + n; ++i)
    bias[i] = 5;
  for (std::size_t i = 0; i < 5; ++i)
    std::memcpy((*engine)->inputData(0, i), (i == 3 ? bias : zeros).data(),
                4 * elements);
  ASSERT_TRUE((*engine)->run(0).ok());
  float result;
  std::memcpy(&result, (*engine)->outputData(0, 0), sizeof(result));
  EXPECT_EQ(result, 5);
  engine->reset();
  EXPECT_TRUE(fakecuda::violations().empty()) << fakecuda::violations().front();
}

TEST(BlasLtTest, RefusesEpiloguesElsewhere) {
  auto expect = [](Case test, Json library, const char *expected) {
    Json description = describe(test);
    for (auto &[name, program] : description["programs"].items())
      toy::commandsOf(program)[0]["library"] = library;
    Result<ProgramFile> file = parseProgramFile(description.dump(), 0);
    ASSERT_FALSE(file.ok()) << expected;
    EXPECT_NE(file.status().message().find(expected), std::string::npos)
        << file.status().message();
  };
  Case good = {
      ElementType::F32, ElementType::F32, false, false, 1, false, 4096};
  Case batched = good, adding = good, f64 = good, even = good, wide = good;
  batched.batch = 2;
  adding.accumulates = true;
  f64.type = f64.resultType = ElementType::F64;
  even.columns = 8;
  wide.type = ElementType::BF16;
  Json bias = {{"epilogue", "bias"}, {"bias", device(3 * 1024)}};
  auto with = [&](const char *key, const Json &value) {
    Json changed = bias;
    changed[key] = value;
    return changed;
  };
  expect(batched, bias, "a batch of 1 and a beta of 0");
  expect(adding, bias, "a batch of 1 and a beta of 0");
  expect(f64, bias, "a gemm of f64 operands cannot have");
  expect(good, with("bias", device(16 * 1024)), "beyond the arena");
  expect(good, with("bias", {0, 0, "host"}), "");
  expect(good, with("epilogue", "relu"),
         "'relu', which is not an epilogue of the vendor library");
  expect(good, {{"epilogue", "bias"}}, "bias");
  expect(good, Json::object(), "epilogue");
  expect(good, 3, "");
  expect(good, {{"epilogue", "dgelu"}, {"aux", device(0)}},
         "rows of 5 elements, expected a row length that is a multiple of 8");
  expect(even, {{"epilogue", "dgelu"}, {"aux", device(8)}},
         "does not begin at a multiple of 16 bytes");
  expect(even, {{"epilogue", "dgelu"}, {"aux", device(16 * 1024)}},
         "beyond the arena");
  expect(even, {{"epilogue", "dgelu"}}, "aux");
  expect(wide, with("epilogue", "gelu_bias"), "differs from the type of its");
}

/// If cuBLASLt proposes no algorithm for a matmul with an epilogue, the error
/// message names the epilogue.
TEST(BlasLtTest, NamesAnEpilogueThatIsNotKnown) {
  fakecuda::Settings settings;
  settings.gemmTimes = {};
  Case test = {
      ElementType::F32,      ElementType::F32, false, false, 1, false, 4096,
      GemmEpilogue::GeluBias};
  fakecuda::reset(settings);
  Result<std::unique_ptr<Engine>> engine =
      cuda::createCudaEngine(describe(test).dump(), nullptr, 0,
                             toy::toyImages(), toy::fakeLibraries());
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  std::string message = (*engine)->start(1).message();
  EXPECT_NE(message.find("product"), std::string::npos) << message;
  EXPECT_NE(message.find("with the epilogue 'gelu_bias' within"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("or compile with --library-epilogues=off"),
            std::string::npos)
      << message;
}

TEST(BlasLtTest, WithoutAWorkspace) {
  for (auto [type, resultType] : kinds)
    check({type, resultType, false, true, 1, false, 0});
}

TEST(BlasLtTest, OfHardlyAlignedMatrices) {
  for (auto [type, resultType] : kinds)
    check({type, resultType, true, false, 1, true, 4096}, 1);
}

} // namespace
