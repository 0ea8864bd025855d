//===- BlasLtTest.cpp - Tests of cuBLASLt matmuls -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares matmuls with naive matmuls in f64. The cases have transposed
// operands, batches, accumulation, padded rows, and operands that are not
// aligned to 16 bytes. For a product A B in a type with the machine epsilon
// eps, the norm of the error may be at most 8 eps |A| |B|, and the padding of
// the result must not change.
//
//===----------------------------------------------------------------------===//

#include "DeviceUnderTest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace kiln::runtime::devicetest;
using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

struct Shape {
  int64_t m, n, k;
  int64_t padding;    ///< Padding elements of each row.
  int64_t misaligned; ///< Offset of operands in their buffers, in elements.
  int64_t batch;
};

struct Kind {
  bool transA, transB, accumulates;
};

template <typename T> class Product {
public:
  Product(const Shape &shape, const Kind &kind) : shape_(shape), kind_(kind) {
    operands_[0] = operand(shape.m, shape.k, kind.transA);
    operands_[1] = operand(shape.k, shape.n, kind.transB);
    operands_[2] = operand(shape.m, shape.n, false);
  }
  void check();

private:
  struct Operand {
    int64_t rows, ld, stride, elements;
    bool trans;
    int64_t offset = 0; ///< Offset of the buffer in the arena, in bytes.
    std::vector<T> values;
    int64_t at(int64_t entry, int64_t row, int64_t column) const {
      if (trans)
        std::swap(row, column);
      return entry * stride + row * ld + column;
    }
  };

  Operand operand(int64_t rows, int64_t columns, bool trans) {
    if (trans)
      std::swap(rows, columns);
    Operand result = {rows, columns + shape_.padding, 0, 0, trans, 0, {}};
    result.stride = rows * result.ld + shape_.padding;
    result.elements = shape_.batch * result.stride + shape_.misaligned;
    for (float x : numbers(result.elements, uint64_t(rows * 31 + columns)))
      result.values.push_back(T(x));
    return result;
  }
  Json describe();
  void compare(const T *result) const;

  Shape shape_;
  Kind kind_;
  Operand operands_[3];
};

template <typename T> Json Product<T>::describe() {
  const char *type = sizeof(T) == 8 ? "f64" : "f32";
  const char *names[] = {"a", "b", "c"};
  Json matrices[3], inputs = Json::array(), slots = Json::array();
  int64_t bytes = 0;
  for (int i = 0; i < 3; ++i) {
    Operand &part = operands_[i];
    part.offset = bytes;
    int64_t size = part.elements * int64_t(sizeof(T));
    matrices[i] = {
        {"ref", device(part.offset + shape_.misaligned * int64_t(sizeof(T)))},
        {"ld", part.ld},
        {"trans", part.trans},
        {"batch_stride", part.stride}};
    inputs.push_back(value(names[i], part.offset, part.elements));
    inputs.back()["dtype"] = type;
    slots.push_back(
        slot(names[i], i == 2 ? "output" : "input", part.offset, size, 0, 1));
    bytes += (size + alignment - 1) / alignment * alignment;
  }
  Json gemm = {{"op", "gemm"},
               {"name", "product"},
               {"dtype", type},
               {"m", shape_.m},
               {"n", shape_.n},
               {"k", shape_.k},
               {"batch", shape_.batch},
               {"a", matrices[0]},
               {"b", matrices[1]},
               {"c", matrices[2]},
               {"beta", kind_.accumulates ? 1 : 0},
               {"grid", {1, 1}},
               {"flops", 0},
               {"epilogue", nullptr}};
  return handProgram({gemm}, slots, inputs, {inputs[2]}, bytes);
}

template <typename T> void Product<T>::compare(const T *result) const {
  const auto &[a, b, c] = operands_;
  double difference = 0, normA = 0, normB = 0;
  std::vector<bool> written(c.values.size());
  for (int64_t entry = 0; entry < shape_.batch; ++entry)
    for (int64_t row = 0; row < shape_.m; ++row)
      for (int64_t column = 0; column < shape_.n; ++column) {
        auto place = std::size_t(c.at(entry, row, column) + shape_.misaligned);
        double sum = kind_.accumulates ? double(c.values[place]) : 0;
        for (int64_t i = 0; i < shape_.k; ++i)
          sum += double(a.values[std::size_t(a.at(entry, row, i) +
                                             shape_.misaligned)]) *
                 double(b.values[std::size_t(b.at(entry, i, column) +
                                             shape_.misaligned)]);
        double error = double(result[place]) - sum;
        difference += error * error;
        written[place] = true;
      }
  for (T x : a.values)
    normA += double(x) * double(x);
  for (T x : b.values)
    normB += double(x) * double(x);
  double allowed =
      8 * double(std::numeric_limits<T>::epsilon()) * std::sqrt(normA * normB);
  EXPECT_LE(std::sqrt(difference), allowed);
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (!written[i]) {
      ASSERT_EQ(result[i], c.values[i]) << "around the result, element " << i;
    }
  }
}

template <typename T> void Product<T>::check() {
  std::unique_ptr<Engine> engine = startEngine(describe());
  ASSERT_TRUE(engine);
  const auto *result = reinterpret_cast<const T *>(engine->outputData(0, 0));
  std::vector<T> first;
  for (int run = 0; run < 3; ++run) {
    for (std::size_t i = 0; i < 3; ++i)
      std::memcpy(engine->inputData(0, i), operands_[i].values.data(),
                  operands_[i].values.size() * sizeof(T));
    Status status = engine->run(0);
    ASSERT_TRUE(status.ok()) << status.message();
    if (run == 0) {
      compare(result);
      first.assign(result, result + operands_[2].elements);
    }
    // Later runs, which launch a graph, must give the same bits as the first
    // run.
    ASSERT_EQ(std::memcmp(first.data(), result, first.size() * sizeof(T)), 0);
  }
}

void checkAllKinds(const Shape &shape) {
  SCOPED_TRACE(std::to_string(shape.m) + " x " + std::to_string(shape.n) +
               " x " + std::to_string(shape.k));
  for (int bits = 0; bits < 8; ++bits) {
    Kind kind = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    SCOPED_TRACE("transposed " + std::to_string(kind.transA) +
                 std::to_string(kind.transB) + ", added " +
                 std::to_string(kind.accumulates));
    Product<float>(shape, kind).check();
    Product<double>(shape, kind).check();
    if (::testing::Test::HasFailure())
      return;
  }
}

TEST(BlasLtTest, SmallOnes) {
  for (const Shape &shape :
       {Shape{1, 1, 1, 0, 0, 1}, Shape{3, 5, 4, 2, 1, 2},
        Shape{16, 16, 16, 0, 0, 1}, Shape{7, 64, 33, 3, 0, 3}})
    checkAllKinds(shape);
}

TEST(BlasLtTest, OddOnes) {
  checkAllKinds({127, 65, 33, 1, 1, 1});
  checkAllKinds({42, 42, 126, 0, 0, 1});
}

TEST(BlasLtTest, LongSums) { checkAllKinds({33, 40, 3000, 0, 3, 1}); }

} // namespace
