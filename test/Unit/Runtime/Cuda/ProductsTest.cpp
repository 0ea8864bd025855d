//===- ProductsTest.cpp - Matrix products of every kind -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaToy.h"
#include "HandProgram.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

constexpr int64_t m = 3, n = 5, k = 4, batch = 2;

struct Case {
  bool transA, transB, isF64;
  int64_t batch;
  bool accumulates;
};

Json operand(int64_t offset, int64_t ld, bool trans, int64_t stride) {
  return {{"ref", device(offset)},
          {"ld", ld},
          {"trans", trans},
          {"batch_stride", stride}};
}

template <typename T> void check(const Case &test) {
  // Rows are longer than they need to be.
  constexpr int64_t ld = 7, stride = 64;
  constexpr int64_t bytes = 1024;
  Json gemm = {{"op", "gemm"},
               {"name", "product"},
               {"dtype", test.isF64 ? "f64" : "f32"},
               {"m", m},
               {"n", n},
               {"k", k},
               {"batch", test.batch},
               {"a", operand(0, ld, test.transA, stride)},
               {"b", operand(bytes, ld, test.transB, stride)},
               {"c", operand(2 * bytes, ld, false, stride)},
               {"beta", test.accumulates ? 1 : 0},
               {"grid", {1, 1}},
               {"flops", 0},
               {"epilogue", nullptr}};
  auto elements = bytes / int64_t(sizeof(T));
  Json inputs = Json::array(), slots = Json::array();
  const char *names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(value(names[i], i * bytes, elements));
    inputs.back()["dtype"] = test.isF64 ? "f64" : "f32";
    slots.push_back(
        slot(names[i], i == 2 ? "output" : "input", i * bytes, bytes, 0, 1));
  }
  Json description = handProgram({gemm}, slots, inputs, {inputs[2]}, 3 * bytes);
  description["target"]["kind"] = "cuda";

  fakecuda::reset();
  Result<std::unique_ptr<Engine>> engine = cuda::createCudaEngine(
      description.dump(), nullptr, 0, toy::toyImages(), toy::fakeLibraries());
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  Status status = (*engine)->start(1);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<T> operands[3];
  for (int i = 0; i < 3; ++i)
    for (int64_t j = 0; j < elements; ++j)
      operands[i].push_back(T(std::sin(double(100 * i + j))));
  auto at = [&](int i, int64_t entry, int64_t row, int64_t column, bool trans) {
    if (trans)
      std::swap(row, column);
    return operands[i][std::size_t(entry * stride + row * ld + column)];
  };
  // The second and third run are those of the graph.
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < 3; ++i)
      std::memcpy((*engine)->inputData(0, std::size_t(i)), operands[i].data(),
                  bytes);
    status = (*engine)->run(0);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto *result = reinterpret_cast<T *>((*engine)->outputData(0, 0));
    for (int64_t entry = 0; entry < test.batch; ++entry)
      for (int64_t row = 0; row < m; ++row)
        for (int64_t column = 0; column < ld; ++column) {
          double expected = test.accumulates || column >= n
                                ? double(at(2, entry, row, column, false))
                                : 0;
          for (int64_t i = 0; i < k && column < n; ++i)
            expected += double(at(0, entry, row, i, test.transA)) *
                        double(at(1, entry, i, column, test.transB));
          EXPECT_NEAR(result[entry * stride + row * ld + column], expected,
                      1e-5);
        }
  }
  engine->reset();
  EXPECT_TRUE(fakecuda::violations().empty()) << fakecuda::violations().front();
  EXPECT_TRUE(fakecuda::live().empty());
}

TEST(ProductsTest, OfAllKinds) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (int64_t count : {int64_t(1), batch})
        for (bool accumulates : {false, true}) {
          check<float>({transA, transB, false, count, accumulates});
          check<double>({transA, transB, true, count, accumulates});
        }
}

} // namespace
