//===- PermuteKernelTest.cpp - Strided copies on the emulated GPU ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPair.h"

#include "../KernelCalls.h"

#include <gtest/gtest.h>

#include <limits>

using namespace kiln;
using namespace kiln::test;

namespace {

using Sizes = llvm::SmallVector<int64_t, 4>;

int64_t lastOffset(const Sizes &shape, const Sizes &strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    offset += (shape[i] - 1) * strides[i];
  return offset;
}

template <typename T = float, typename To = T>
void check(PermuteShape shape, int64_t skip = 0, int64_t nanAt = -1) {
  SCOPED_TRACE(testing::Message()
               << "shape "
               << testing::PrintToString(std::vector<int64_t>(
                      shape.shape.begin(), shape.shape.end()))
               << " skip " << skip);
  int64_t sources = shape.srcOffset +
                    lastOffset(shape.shape, shape.srcStrides) +
                    lastOffset(shape.reduceShape, shape.srcReduceStrides) + 1;
  int64_t results =
      shape.dstOffset + lastOffset(shape.shape, shape.dstStrides) + 1;
  if (shape.zeroRows > 0)
    results = std::max(results, lastOffset({shape.zeroRows, shape.zeroColumns},
                                           {shape.zeroStride, 1}) +
                                    1);
  std::vector<T> source = someValues<T>(sources, 1);
  if (nanAt >= 0)
    source[nanAt] = std::numeric_limits<Full<T>>::quiet_NaN();
  Memory memory;
  Place src = memory.add(source, skip);
  Place dst = memory.add(someValues<To>(results, 2), skip);
  memory.add(someValues<To>(5, 3));
  expectSameBits(
      memory, {src, written(dst)}, {},
      [&](auto module, auto name, auto b) {
        shape.elementType = elementType<To>(b);
        shape.sourceType = elementType<T>(b);
        return cpu::emitPermute(module, name, shape);
      },
      [&](auto kernels, auto name, auto b, auto alignments) {
        shape.elementType = elementType<To>(b);
        shape.sourceType = elementType<T>(b);
        return gpu::emitPermute(kernels, name, shape, alignments);
      });
}

PermuteShape copy(Sizes shape, Sizes src, Sizes dst, int64_t srcOffset = 0,
                  int64_t dstOffset = 0) {
  PermuteShape s;
  s.shape = shape;
  s.srcStrides = src;
  s.dstStrides = dst;
  s.srcOffset = srcOffset;
  s.dstOffset = dstOffset;
  return s;
}

PermuteShape reduce(Sizes shape, Sizes src, Sizes dst, Sizes inside,
                    Sizes strides, bool max = false) {
  PermuteShape s = copy(shape, src, dst);
  s.reduceShape = inside;
  s.srcReduceStrides = strides;
  s.reduceMax = max;
  return s;
}

PermuteShape pad(Sizes shape, Sizes src, Sizes dst, int64_t offset,
                 int64_t rows, int64_t columns, int64_t stride) {
  PermuteShape s = copy(shape, src, dst);
  s.dstOffset = offset;
  s.zeroRows = rows;
  s.zeroColumns = columns;
  s.zeroStride = stride;
  return s;
}

TEST(GpuPermute, Copies) {
  check(copy({1}, {1}, {1}));
  check(copy({3000}, {1}, {1}));
  check(copy({3000}, {1}, {1}), /*skip=*/8);
  check(copy({7, 33}, {40, 1}, {33, 1}));
  check(copy({7, 32}, {40, 1}, {32, 1}));
  check(copy({3, 5, 4, 8}, {160, 32, 8, 1}, {160, 8, 40, 1})); // Heads.
  check(copy({4, 20}, {25, 1}, {22, 1}, 13, 3));
  check(copy({4, 20}, {24, 1}, {28, 1}, 4, 8));
  check<double>(copy({5, 22}, {30, 1}, {22, 1}));
}

TEST(GpuPermute, Broadcasts) {
  check(copy({6, 48}, {1, 0}, {48, 1}));
  check(copy({6, 50}, {0, 1}, {50, 1}));
  check(copy({300}, {0}, {1}));
  check(copy({3, 4, 16}, {16, 0, 1}, {64, 16, 1}));
}

TEST(GpuPermute, Transposes) {
  check(copy({32, 64}, {1, 32}, {64, 1}));
  check(copy({37, 50}, {1, 37}, {50, 1}));
  check(copy({3, 200}, {1, 3}, {200, 1}));
  check(copy({200, 3}, {1, 200}, {3, 1}));
  check(copy({3, 20, 35}, {700, 1, 20}, {700, 35, 1})); // Batches.
  check(copy({20, 3, 35}, {1, 700, 20}, {105, 35, 1}));
  check(copy({40, 50}, {1, 43}, {53, 1}, 2, 5), /*skip=*/4);
  check<double>(copy({18, 33}, {1, 18}, {33, 1}));
}

TEST(GpuPermute, Elements) {
  check(copy({9, 11}, {3, 27}, {11, 1}));
  check(copy({4, 6}, {6, 1}, {12, 2}));
}

TEST(GpuPermute, Reductions) {
  check(reduce({52}, {1}, {1}, {30}, {52})); // Column sums.
  check(reduce({50}, {30}, {1}, {30}, {1})); // Row sums.
  check(reduce({4, 50}, {500, 1}, {50, 1}, {10}, {50}));
  check(reduce({6}, {60}, {1}, {5, 4}, {4, 1}, true));
  check(reduce({20}, {1}, {1}, {3, 7}, {500, 20}, true));
  check(reduce({1}, {0}, {1}, {100}, {1}));
  check<double>(reduce({33}, {1}, {1}, {9}, {33}));
}

TEST(GpuPermute, MaximumKeepsNaN) {
  check(reduce({20}, {1}, {1}, {9}, {20}, true), 0, 4 * 20 + 3);
  check(reduce({6}, {9}, {1}, {9}, {1}, true), 0, 9 * 2 + 4);
}

TEST(GpuPermute, BfloatsKeepTheirBits) {
  for (int64_t skip : {0, 2, 4, 8}) {
    check<Bfloat>(copy({3000}, {1}, {1}), skip, /*nanAt=*/7);
    check<Bfloat>(copy({3, 5, 4, 8}, {160, 32, 8, 1}, {160, 8, 40, 1}), skip);
    check<Bfloat>(copy({40, 50}, {1, 44}, {54, 1}, 2, 6), skip);
    check<Bfloat>(pad({9, 80}, {80, 1}, {152, 1}, 312, 13, 100, 152), skip);
  }
  check<Bfloat>(copy({4, 20}, {25, 1}, {22, 1}, 13, 3));
  check<Bfloat>(copy({6, 50}, {0, 1}, {50, 1}));
  check<Bfloat>(copy({300}, {0}, {1}));
  check<Bfloat>(copy({9, 11}, {3, 27}, {11, 1}));
}

/// The kernel transposes tiles, and accesses memory in pairs of elements. If
/// rows have an odd length or stride, it accesses the source or the destination
/// element by element.
TEST(GpuPermute, TransposesOfBfloats) {
  check<Bfloat>(copy({128, 64}, {1, 128}, {64, 1}), 0, /*nanAt=*/9);
  check<Bfloat>(copy({38, 70}, {1, 38}, {70, 1}));
  check<Bfloat>(copy({3, 20, 36}, {720, 1, 20}, {720, 36, 1})); // Batches.
  check<Bfloat>(copy({37, 70}, {1, 38}, {70, 1}));
  check<Bfloat>(copy({38, 71}, {1, 38}, {72, 1}));
  check<Bfloat>(copy({38, 70}, {1, 39}, {70, 1}));
  check<Bfloat>(copy({38, 70}, {1, 38}, {71, 1}));
  check<Bfloat>(copy({38, 70}, {1, 38}, {70, 1}, 1));
  check<Bfloat>(copy({38, 70}, {1, 38}, {70, 1}, 0, 3));
  check<Bfloat>(copy({38, 70}, {1, 38}, {70, 1}), /*skip=*/2);
}

TEST(GpuPermute, BfloatsAddUpInF32) {
  check<Bfloat>(reduce({56}, {1}, {1}, {300}, {56}));
  check<Bfloat>(reduce({50}, {30}, {1}, {30}, {1}));
  check<Bfloat>(reduce({6}, {60}, {1}, {5, 4}, {4, 1}, true), 0, 60 * 2 + 4);
  check<Bfloat, float>(reduce({56}, {1}, {1}, {300}, {56}));
  check<Bfloat, float>(reduce({50}, {30}, {1}, {30}, {1}), /*skip=*/4);
}

TEST(GpuPermute, Pads) {
  check(pad({500}, {1}, {1}, 450, 1, 970, 970));
  check(pad({500}, {1}, {1}, 452, 1, 972, 972));
  check(pad({9, 80}, {80, 1}, {100, 1}, 212, 13, 100, 100));
  check(pad({3, 4, 9}, {36, 9, 1}, {140, 14, 1}, 143, 30, 20, 20));
  check(pad({40}, {0}, {1}, 30, 1, 100, 100));
  // Padded rows with a row stride.
  check(pad({4, 8}, {8, 1}, {19, 1}, 2, 4, 11, 19));
  check(pad({9, 80}, {80, 1}, {152, 1}, 312, 13, 100, 152));
  check(pad({10, 3, 2}, {6, 2, 1}, {30, 6, 1}, 36, 12 * 5, 2, 6));
  check(pad({1, 90}, {90, 1}, {120, 1}, 244, 5, 100, 120));
  check(pad({30, 1}, {1, 1}, {100, 1}, 507, 40, 70, 100));
  check(pad({70, 90}, {1, 70}, {140, 1}, 280, 75, 95, 140));
}

} // namespace
