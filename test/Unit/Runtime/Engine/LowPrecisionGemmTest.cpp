//===- LowPrecisionGemmTest.cpp - GEMMs of bf16 and f16 on a CPU ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Elements are small integers, so that every sum is exact in f32 and must equal
// the result of plain loops, rounded once.
//
//===----------------------------------------------------------------------===//

#include "LowPrecisionGemm.h"

#include "AmxGemm.h"
#include "Avx512Gemm.h"
#include "CommandTable.h"
#include "GemmTiles.h"
#include "TestArenas.h"
#include "TestPrograms.h"
#include "kiln/Abi/GemmWorkspace.h"
#include "kiln/Support/ElementConversion.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace kiln::abi;
using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

uint16_t bfloat(float value) { return doubleToBfloat(double(value)); }

/// Writes element `index` of an array of `type`.
void put(ElementType type, char *data, int64_t index, float value) {
  convertElements(ElementType::F32, &value, type, data + bytesOf(type, index),
                  1);
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

struct Shape {
  int64_t m, n, k, batch;
  int64_t gridM, gridN;
};

/// The kernel that computes a GEMM, and the element types of its operands and
/// its result.
struct Method {
  GemmKernel kernel;
  ElementType type, resultType;
};

/// A GEMM in an arena: a and b of bf16, f16 or f32, c of their type or f32, and
/// a workspace.
class Product {
public:
  Product(const Shape &shape, bool transA, bool transB, Method method,
          GemmBeta beta);

  Command command;
  std::vector<char> arena;

  float a(int64_t entry, int64_t row, int64_t column) const {
    return get(command.a, command.type, entry, row, column);
  }
  float b(int64_t entry, int64_t row, int64_t column) const {
    return get(command.b, command.type, entry, row, column);
  }
  float c(int64_t entry, int64_t row, int64_t column) const {
    return get(command.c, command.resultType, entry, row, column);
  }
  /// Returns the arena after `runs` runs of the command on `threads` threads.
  std::vector<char> run(int threads, int64_t runs = 1) const;

private:
  float get(const GemmOperand &operand, ElementType type, int64_t entry,
            int64_t row, int64_t column) const;
  GemmOperand take(int64_t rows, int64_t columns, bool trans, ElementType type,
                   int64_t gap);
};

constexpr int maxThreads = 3;

GemmOperand Product::take(int64_t rows, int64_t columns, bool trans,
                          ElementType type, int64_t gap) {
  if (trans)
    std::swap(rows, columns);
  GemmOperand operand;
  operand.trans = trans;
  // Rows and matrices are padded, and their addresses have only the alignment
  // of an element.
  operand.ld = columns + gap;
  operand.batchStride = rows * operand.ld + gap;
  int64_t bytes = int64_t(bitsOf(type)) / 8;
  operand.ref.offset = int64_t(arena.size() + 63) / 64 * 64 + bytes * gap;
  arena.resize(
      size_t(operand.ref.offset + bytes * operand.batchStride * command.batch));
  return operand;
}

Product::Product(const Shape &shape, bool transA, bool transB, Method method,
                 GemmBeta beta) {
  command.kind = Command::Kind::Gemm;
  command.gemmKernel = method.kernel;
  command.type = method.type;
  command.resultType = method.resultType;
  command.m = shape.m;
  command.n = shape.n;
  command.k = shape.k;
  command.batch = shape.batch;
  command.beta = beta;
  command.gridM = shape.gridM;
  command.gridN = shape.gridN;
  command.a = take(shape.m, shape.k, transA, command.type, 3);
  command.b = take(shape.k, shape.n, transB, command.type, 1);
  command.c = take(shape.m, shape.n, false, method.resultType, 2);
  std::mt19937 generator(7);
  auto fill = [&](const GemmOperand &operand, ElementType type) {
    char *data = arena.data() + operand.ref.offset;
    for (int64_t i = 0; i < operand.batchStride * shape.batch; ++i) {
      put(type, data, i, float(int(generator() % 15) - 7));
    }
  };
  fill(command.a, command.type);
  fill(command.b, command.type);
  fill(command.c, command.resultType);
  command.workspace.offset = int64_t(arena.size() + 63) / 64 * 64;
  command.workspace.bytes = maxThreads * tileScratchBytes(command);
  // The bytes after the workspace must not be written.
  arena.resize(size_t(command.workspace.offset + command.workspace.bytes),
               0x77);
  arena.resize(arena.size() + 256, 0x55);
}

float Product::get(const GemmOperand &operand, ElementType type, int64_t entry,
                   int64_t row, int64_t column) const {
  if (operand.trans)
    std::swap(row, column);
  int64_t i = entry * operand.batchStride + row * operand.ld + column;
  const char *data = arena.data() + operand.ref.offset;
  float value;
  convertElements(type, data + bytesOf(type, i), ElementType::F32, &value, 1);
  return value;
}

std::vector<char> Product::run(int threads, int64_t runs) const {
  Program program = runs > 1 ? inMicrobatches({command}, 0, 0, 1, runs)
                             : programOf({command});
  TestArenas arenas(int64_t(arena.size()));
  arenas.write(arena);
  ThreadTeam team(threads);
  prepareBlas(team);
  CommandTable table(program, arenas, team, nullptr);
  table.run(nullptr);
  return arenas.read<char>();
}

/// Returns the bytes outside the workspace.
std::vector<char> results(const Product &product, std::vector<char> arena) {
  auto begin = arena.begin() + product.command.workspace.offset;
  arena.erase(begin, begin + product.command.workspace.bytes);
  return arena;
}

void check(const Shape &shape, bool transA, bool transB, Method method,
           GemmBeta beta) {
  Product product(shape, transA, transB, method, beta);
  Product expected = product;
  for (int64_t entry = 0; entry < shape.batch; ++entry)
    for (int64_t row = 0; row < shape.m; ++row)
      for (int64_t column = 0; column < shape.n; ++column) {
        float sum = beta == GemmBeta::Zero ? 0 : product.c(entry, row, column);
        for (int64_t i = 0; i < shape.k; ++i)
          sum += product.a(entry, row, i) * product.b(entry, i, column);
        const GemmOperand &c = product.command.c;
        int64_t place = entry * c.batchStride + row * c.ld + column;
        char *data = expected.arena.data() + c.ref.offset;
        put(method.resultType, data, place, sum);
      }
  std::vector<char> wanted = results(product, expected.arena);
  for (int threads = 1; threads <= maxThreads; ++threads)
    EXPECT_TRUE(results(product, product.run(threads)) == wanted)
        << threads << " threads: " << shape.m << "x" << shape.n << "x"
        << shape.k << (transA ? " a^T" : "") << (transB ? " b^T" : "");
}

/// Returns true if this processor supports the kernel of kiln for operands of
/// `type`.
bool hasPackedGemm(GemmKernel kernel, ElementType type) {
  return kernel == GemmKernel::Amx ? hasAmxGemm(type) : hasAvx512Gemm(type);
}

/// Returns the methods to test on this processor. CommandTableTest tests the
/// remaining method, f32 operands with GemmKernel::Blas.
std::vector<Method> methods() {
  constexpr ElementType f32 = ElementType::F32;
  std::vector<Method> list;
  for (ElementType narrow : {ElementType::BF16, ElementType::F16})
    for (GemmKernel kernel :
         {GemmKernel::Blas, GemmKernel::Avx512, GemmKernel::Amx})
      if (kernel == GemmKernel::Blas || hasPackedGemm(kernel, narrow)) {
        list.push_back({kernel, narrow, narrow});
        list.push_back({kernel, narrow, f32});
      }
  if (hasAvx512Gemm(f32))
    list.push_back({GemmKernel::Avx512, f32, f32});
  return list;
}

constexpr Method blas = {GemmKernel::Blas, ElementType::BF16, ElementType::F32};

class LowPrecisionGemmTest : public testing::TestWithParam<Shape> {};

TEST_P(LowPrecisionGemmTest, IsThatOfPlainLoopsOnAnyNumberOfThreads) {
  for (Method method : methods())
    for (GemmBeta beta : {GemmBeta::Zero, GemmBeta::One})
      for (bool transA : {false, true})
        for (bool transB : {false, true})
          check(GetParam(), transA, transB, method, beta);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LowPrecisionGemmTest,
    testing::Values(Shape{1, 1, 1, 1, 1, 1}, Shape{3, 5, 7, 1, 1, 1},
                    Shape{16, 16, 16, 1, 1, 1}, Shape{17, 15, 33, 3, 1, 1},
                    Shape{40, 40, 24, 4, 2, 2}, Shape{70, 90, 33, 1, 2, 3},
                    // Some tiles are empty.
                    Shape{20, 20, 8, 1, 4, 4}, Shape{1, 300, 320, 1, 1, 2},
                    // Several blocks in each dimension.
                    Shape{blockRows + 5, 24, 9, 1, 1, 1},
                    Shape{9, blockColumns + 1, 10, 1, 1, 1},
                    Shape{31, 33, 2 * blockDepth + 1, 1, 1, 1},
                    Shape{packed::amx.sumRows() + 5, 24, 9, 1, 1, 1},
                    Shape{30, packed::avx512.blockColumns + 17, 2, 1, 1, 1},
                    Shape{packed::avx512.sumRows() + 31, 48,
                          2 * packed::avx512.blockDepth + 7, 1, 1, 2},
                    Shape{packed::amx.blockRows + 20, 70,
                          2 * packed::amx.blockDepth + 37, 2, 1, 1},
                    Shape{160, 150, 2 * blockDepth + 50, 1, 1, 2}));

TEST(LowPrecisionGemmTest, TheFirstMicrobatchStartsTheSum) {
  Product product({20, 30, 10, 1, 1, 2}, false, false, blas, GemmBeta::First);
  Product after = product;
  after.arena = product.run(2, 3);
  for (int64_t row = 0; row < 20; ++row)
    for (int64_t column = 0; column < 30; ++column) {
      float sum = 0;
      for (int64_t i = 0; i < 10; ++i)
        sum += product.a(0, row, i) * product.b(0, i, column);
      EXPECT_EQ(after.c(0, row, column), 3 * sum);
    }
}

static void checkRoundsOnce(GemmKernel kernel, int64_t blockDepth) {
  // The first block has the terms 1 and 2^-8, and the second block has the term
  // 2^-8. Their sum, 1 + 2^-7, is a bf16 number. If the sum were rounded to
  // bf16 after each block, the result would be 1.
  Product product({16, 16, 2 * blockDepth, 1, 1, 1}, false, false,
                  {kernel, ElementType::BF16, ElementType::BF16},
                  GemmBeta::Zero);
  auto fill = [&](const GemmOperand &operand, float value) {
    uint16_t bits = bfloat(value);
    for (int64_t i = 0; i < operand.batchStride; ++i)
      std::memcpy(product.arena.data() + operand.ref.offset + 2 * i, &bits, 2);
  };
  fill(product.command.a, 0);
  fill(product.command.b, 1);
  const std::pair<int64_t, float> terms[] = {
      {0, 1.0f}, {1, 0x1p-8f}, {blockDepth, 0x1p-8f}};
  for (int64_t row = 0; row < 16; ++row)
    for (auto [column, value] : terms) {
      uint16_t bits = bfloat(value);
      std::memcpy(product.arena.data() + product.command.a.ref.offset +
                      2 * (row * product.command.a.ld + column),
                  &bits, 2);
    }
  Product after = product;
  after.arena = product.run(1);
  EXPECT_EQ(after.c(0, 3, 4), 1.0f + 0x1p-7f);
}

TEST(LowPrecisionGemmTest, RoundsOnce) {
  checkRoundsOnce(GemmKernel::Blas, blockDepth);
  if (hasAvx512Gemm(ElementType::BF16))
    checkRoundsOnce(GemmKernel::Avx512, 2 * packed::avx512.blockDepth);
  if (hasAmxGemm(ElementType::BF16))
    checkRoundsOnce(GemmKernel::Amx, 2 * packed::amx.blockDepth);
}

/// Fills both operands with values whose sums depend on the order of summation.
static void fillNormals(Product &product) {
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  for (const GemmOperand *operand : {&product.command.a, &product.command.b})
    for (int64_t i = 0; i < operand->batchStride; ++i)
      put(product.command.type, product.arena.data() + operand->ref.offset, i,
          normal(generator));
}

TEST(LowPrecisionGemmTest, AmxAddsInTheDocumentedOrder) {
  if (!hasAmxGemm(ElementType::BF16))
    GTEST_SKIP() << "this processor does not support the kernel amx";
  // The sum over k is split into two blocks. Within a block, groups of 32
  // elements are summed. The last group has fewer elements.
  const int64_t m = 37, n = 21, k = 2 * packed::amx.blockDepth + 75;
  for (GemmBeta beta : {GemmBeta::Zero, GemmBeta::One}) {
    Product product({m, n, k, 1, 1, 1}, false, false,
                    {GemmKernel::Amx, ElementType::BF16, ElementType::F32},
                    beta);
    fillNormals(product);
    Product after = product;
    after.arena = product.run(1);
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        float sum = beta == GemmBeta::Zero ? 0 : product.c(0, row, column);
        for (int64_t group = 0; group < k; group += 32) {
          float sums[2] = {0, 0};
          for (int64_t i = group; i < std::min(group + 32, k); ++i)
            sums[i % 2] = std::fma(product.a(0, row, i),
                                   product.b(0, i, column), sums[i % 2]);
          sum += sums[0] + sums[1];
        }
        ASSERT_EQ(after.c(0, row, column), sum) << row << ", " << column;
      }
  }
}

class PackedGemmTest
    : public testing::TestWithParam<std::pair<GemmKernel, ElementType>> {};

TEST_P(PackedGemmTest, GridsDoNotChangeTheBits) {
  auto [kernel, type] = GetParam();
  if (!hasPackedGemm(kernel, type))
    GTEST_SKIP() << "this processor does not support the kernel "
                 << nameOf(kernel);
  auto compute = [kernel = kernel, type = type](int64_t gridM, int64_t gridN) {
    Product product({200, 130, 1000, 1, gridM, gridN}, false, true,
                    {kernel, type, ElementType::F32}, GemmBeta::Zero);
    fillNormals(product);
    Product after = product;
    after.arena = product.run(3);
    std::vector<float> result;
    for (int64_t row = 0; row < 200; ++row)
      for (int64_t column = 0; column < 130; ++column)
        result.push_back(after.c(0, row, column));
    return result;
  };
  std::vector<float> whole = compute(1, 1);
  EXPECT_EQ(compute(2, 1), whole);
  EXPECT_EQ(compute(3, 2), whole);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, PackedGemmTest,
    testing::Values(std::pair(GemmKernel::Avx512, ElementType::F32),
                    std::pair(GemmKernel::Avx512, ElementType::F16),
                    std::pair(GemmKernel::Avx512, ElementType::BF16),
                    std::pair(GemmKernel::Amx, ElementType::BF16)));

TEST(GemmMemoryTest, BlocksFitTheScratchOfAnyTile) {
  for (int64_t extent = 1; extent < 3 * blockRows; extent += 13) {
    int64_t block = blockExtent(extent, blockRows);
    EXPECT_LE(block, blockRows);
    EXPECT_EQ(block % 16, 0);
    for (int64_t tiles = 1; tiles <= std::min<int64_t>(extent, 9); ++tiles)
      for (int64_t i = 0; i < tiles; ++i) {
        int64_t tile =
            tileBegin(extent, tiles, i + 1) - tileBegin(extent, tiles, i);
        if (tile == 0)
          continue;
        int64_t m = blockExtent(tile, blockRows);
        EXPECT_GE(narrowGemmBytes({extent, 16, 16, 1, tiles, 1}, false),
                  4 * (m * 16 + 16 * 16));
        for (GemmKernel kernel : {GemmKernel::Avx512, GemmKernel::Amx})
          for (ElementType type : {ElementType::BF16, ElementType::F16}) {
            GemmShape shape = {extent, extent, 900, 1, tiles, tiles, kernel};
            packed::Blocks blocks(packed::limitsOf(kernel), tile, tile, 900,
                                  packed::elementBytes(type));
            EXPECT_GE(packedGemmBytes(shape, type, true),
                      4 * blocks.scratch(true));
          }
      }
  }
}

TEST(GemmMemoryTest, OfLibrariesGrowsWithTheResultUpToACap) {
  auto bytes = [](int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
    return gemmWorkspaceBytes({m, n, k, batch, 1, 1});
  };
  EXPECT_EQ(bytes(4096, 4096, 511), 0);
  EXPECT_EQ(bytes(64, 32, 512), 64 * 32 * 4 * 2);
  EXPECT_EQ(bytes(64, 32, 1024, 3), 3 * 64 * 32 * 4 * 4);
  EXPECT_EQ(bytes(4096, 4096, 1024), 32 << 20);
  EXPECT_EQ(bytes(INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX), 32 << 20);
}

} // namespace
