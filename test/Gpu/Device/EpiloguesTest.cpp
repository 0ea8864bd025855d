//===- EpiloguesTest.cpp - Tests of cuBLASLt epilogues --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs every epilogue that kilnc generates for all of its element types and
// transpositions, and compares the results with results computed in f64. The
// permitted error of an element is one rounding error of its type plus the
// rounding errors of sums in f32. With gelu, the permitted error is larger by
// 2^-10 |x|, where x is gelu's input, because a GPU may compute an approximate
// tanh.
//
//===----------------------------------------------------------------------===//

#include "DeviceUnderTest.h"
#include "kiln/Abi/GemmEpilogue.h"
#include "kiln/Abi/TanhGelu.h"
#include "kiln/Support/ElementConversion.h"

#include <cmath>

using namespace kiln::abi;
using namespace kiln::runtime::devicetest;
using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

constexpr int64_t m = 48, n = 72, k = 136, workspaceBytes = 1 << 20;

struct Case {
  GemmEpilogue epilogue;
  ElementType type, resultType;
  bool transA = false, transB = false;
};

const char *nameOf(ElementType type) {
  return type == ElementType::F32 ? "f32" : "bf16";
}

std::string nameOf(const Case &test) {
  return std::string(kiln::abi::nameOf(test.epilogue)) + "_" +
         nameOf(test.type) + "_" + nameOf(test.resultType);
}

void PrintTo(const Case &test, std::ostream *out) { *out << nameOf(test); }

/// A matrix or vector of the program in f64, with its input or expected values.
struct Tensor {
  const char *name;
  ElementType type;
  bool isWritten;
  std::vector<double> values;
  std::vector<double> allowed; ///< Permitted error per element.
  int64_t offset = 0;

  int64_t bytes() const { return int64_t(values.size()) * bitsOf(type) / 8; }
};

class Epilogue {
public:
  explicit Epilogue(const Case &test);
  void check();

private:
  enum { A, B, C, Bias, Aux };
  bool exists(int i) const { return !tensors_[i].values.empty(); }
  Tensor input(const char *name, ElementType type, int64_t count, int64_t seed);
  double a(int64_t i, int64_t l) const {
    return tensors_[A].values[size_t(test_.transA ? l * m + i : i * k + l)];
  }
  double b(int64_t l, int64_t j) const {
    return tensors_[B].values[size_t(test_.transB ? j * k + l : l * n + j)];
  }
  void computeMatrix();
  void computeBiasGradient();
  Json describe();

  Case test_;
  Tensor tensors_[5];
};

Tensor Epilogue::input(const char *name, ElementType type, int64_t count,
                       int64_t seed) {
  Tensor tensor = {name, type, false, {}, {}};
  for (float x : numbers(count, uint64_t(seed))) {
    float value = x / 8;
    tensor.values.push_back(type == ElementType::BF16
                                ? bfloatToFloat(doubleToBfloat(value))
                                : value);
  }
  return tensor;
}

Epilogue::Epilogue(const Case &test) : test_(test) {
  GemmEpilogue epilogue = test.epilogue;
  auto output = [&](const char *name, int64_t count) {
    std::vector<double> zeros(static_cast<size_t>(count));
    return Tensor{name, test.resultType, true, zeros, zeros};
  };
  tensors_[A] = input("a", test.type, m * k, 1);
  tensors_[B] = input("b", test.type, k * n, 2);
  tensors_[C] = output("c", m * n);
  int64_t length = biasLength(epilogue, m, n);
  if (writesBias(epilogue))
    tensors_[Bias] = output("bias", length);
  else if (hasBias(epilogue))
    tensors_[Bias] = input("bias", test.resultType, length, 3);
  if (writesAux(epilogue))
    tensors_[Aux] = output("aux", m * n);
  else if (hasAux(epilogue))
    tensors_[Aux] = input("aux", test.resultType, m * n, 4);
  computeMatrix();
  if (writesBias(epilogue))
    computeBiasGradient();
  for (Tensor &tensor : tensors_)
    for (size_t i = 0; i < tensor.allowed.size(); ++i)
      tensor.allowed[i] +=
          std::fabs(tensor.values[i]) * infoOf(tensor.type).spacingAtOne;
}

void Epilogue::computeMatrix() {
  GemmEpilogue epilogue = test_.epilogue;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      auto at = size_t(i * n + j);
      double sum = 0, magnitude = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += a(i, l) * b(l, j);
        magnitude += std::fabs(a(i, l) * b(l, j));
      }
      double error = 0x1p-20 * magnitude;
      if (hasBias(epilogue) && !writesBias(epilogue))
        sum += tensors_[Bias].values[size_t(j)];
      if (writesAux(epilogue)) {
        tensors_[Aux].values[at] = sum;
        tensors_[Aux].allowed[at] = error;
      }
      Tensor &c = tensors_[C];
      if (epilogue == GemmEpilogue::GeluGrad) {
        c.values[at] = sum * tanhGeluDerivative(tensors_[Aux].values[at]);
        error = 2 * error + 0x1p-10 * std::fabs(sum);
      } else if (usesGelu(epilogue)) {
        c.values[at] = tanhGelu(sum);
        error = 2 * error + 0x1p-10 * std::fabs(sum);
      } else {
        c.values[at] = sum;
      }
      c.allowed[at] = error;
    }
}

void Epilogue::computeBiasGradient() {
  Tensor &bias = tensors_[Bias];
  bool ofA = test_.epilogue == GemmEpilogue::BiasGradA;
  for (size_t i = 0; i < bias.values.size(); ++i)
    for (int64_t l = 0; l < k; ++l) {
      double value = ofA ? a(int64_t(i), l) : b(l, int64_t(i));
      bias.values[i] += value;
      bias.allowed[i] += 0x1p-20 * std::fabs(value);
    }
}

Json Epilogue::describe() {
  Json inputs = Json::array(), outputs = Json::array(), slots = Json::array();
  int64_t bytes = 0;
  for (Tensor &tensor : tensors_) {
    if (tensor.values.empty())
      continue;
    tensor.offset = bytes;
    bytes += (tensor.bytes() + alignment - 1) / alignment * alignment;
    Json entry =
        value(tensor.name, tensor.offset, int64_t(tensor.values.size()));
    entry["dtype"] = nameOf(tensor.type);
    (tensor.isWritten ? outputs : inputs).push_back(entry);
    slots.push_back(slot(tensor.name, tensor.isWritten ? "output" : "input",
                         tensor.offset, tensor.bytes(), 0, 1));
  }
  slots.push_back(slot("w", "workspace", bytes, workspaceBytes, 0, 0));
  auto matrix = [&](int i, int64_t ld, bool trans) {
    return Json{{"ref", device(tensors_[i].offset)},
                {"ld", ld},
                {"trans", trans},
                {"batch_stride", 0}};
  };
  Json library = {{"epilogue", std::string(kiln::abi::nameOf(test_.epilogue))}};
  if (exists(Bias))
    library["bias"] = device(tensors_[Bias].offset);
  if (exists(Aux))
    library["aux"] = device(tensors_[Aux].offset);
  Json gemm = {{"op", "gemm"},
               {"name", "product"},
               {"dtype", nameOf(test_.type)},
               {"result", nameOf(test_.resultType)},
               {"m", m},
               {"n", n},
               {"k", k},
               {"batch", 1},
               {"a", matrix(A, test_.transA ? m : k, test_.transA)},
               {"b", matrix(B, test_.transB ? k : n, test_.transB)},
               {"c", matrix(C, n, false)},
               {"beta", 0},
               {"grid", {1, 1}},
               {"flops", 0},
               {"workspace", {bytes, workspaceBytes}},
               {"epilogue", nullptr},
               {"library", library}};
  return handProgram({gemm}, slots, inputs, outputs, bytes + workspaceBytes);
}

void Epilogue::check() {
  std::unique_ptr<Engine> engine = startEngine(describe());
  ASSERT_TRUE(engine);
  size_t next = 0;
  for (const Tensor &tensor : tensors_)
    if (!tensor.isWritten && !tensor.values.empty())
      convertElements(ElementType::F64, tensor.values.data(), tensor.type,
                      engine->inputData(0, next++), tensor.values.size());
  Status status = engine->run(0);
  ASSERT_TRUE(status.ok()) << status.message();
  next = 0;
  for (const Tensor &tensor : tensors_) {
    if (!tensor.isWritten)
      continue;
    std::vector<double> found(tensor.values.size());
    convertElements(tensor.type, engine->outputData(0, next++),
                    ElementType::F64, found.data(), found.size());
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], tensor.values[i], tensor.allowed[i])
          << "element " << i << " of " << tensor.name;
  }
}

std::vector<Case> allCases() {
  const std::pair<ElementType, ElementType> types[] = {
      {ElementType::F32, ElementType::F32},
      {ElementType::BF16, ElementType::BF16},
      {ElementType::BF16, ElementType::F32}};
  std::vector<Case> cases;
  for (int i = 1; i <= int(GemmEpilogue::BiasGradB); ++i)
    for (auto [type, resultType] : types)
      // With gelu, results have the type of the operands.
      if (!usesGelu(GemmEpilogue(i)) || type == resultType)
        cases.push_back({GemmEpilogue(i), type, resultType});
  return cases;
}

class EpiloguesTest : public ::testing::TestWithParam<Case> {};

TEST_P(EpiloguesTest, IsThatOfF64) {
  Case test = GetParam();
  for (bool transA : {false, true})
    for (bool transB : {false, true}) {
      SCOPED_TRACE("transposed " + std::to_string(transA) +
                   std::to_string(transB));
      test.transA = transA;
      test.transB = transB;
      Epilogue(test).check();
    }
}

INSTANTIATE_TEST_SUITE_P(All, EpiloguesTest, ::testing::ValuesIn(allCases()),
                         [](const ::testing::TestParamInfo<Case> &info) {
                           return nameOf(info.param);
                         });

} // namespace
