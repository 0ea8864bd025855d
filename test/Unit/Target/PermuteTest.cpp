//===- PermuteTest.cpp - Strided copies against plain loops ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies do not change bits, and reductions add in index order in the element
// type, so all results are known exactly. The destination is filled with a
// pattern, which must not change outside the region that a kernel writes.
//
//===----------------------------------------------------------------------===//

#include "KernelCalls.h"

#include <limits>

using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::test;

namespace {

using Sizes = llvm::SmallVector<int64_t, 4>;

template <typename Visit> void forEachIndex(const Sizes &shape, Visit visit) {
  Sizes index(shape.size(), 0);
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  for (int64_t i = 0; i < count; ++i) {
    visit(index);
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < shape[dim])
        break;
      index[dim] = 0;
    }
  }
}

int64_t offsetOf(const Sizes &index, const Sizes &strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i)
    offset += index[i] * strides[i];
  return offset;
}

int64_t lastOffset(const Sizes &shape, const Sizes &strides) {
  Sizes last(shape);
  for (int64_t &i : last)
    --i;
  return offsetOf(last, strides);
}

template <typename T, typename To = T>
void check(PermuteShape shape, double nanAt = -1) {
  int64_t srcSize = shape.srcOffset +
                    lastOffset(shape.shape, shape.srcStrides) +
                    lastOffset(shape.reduceShape, shape.srcReduceStrides) + 1;
  Sizes zeros = {shape.zeroRows, shape.zeroColumns};
  Sizes zeroStrides = {shape.zeroStride, 1};
  int64_t dstEnd =
      shape.dstOffset + lastOffset(shape.shape, shape.dstStrides) + 1;
  if (shape.zeroRows > 0)
    dstEnd = std::max(dstEnd, lastOffset(zeros, zeroStrides) + 1);
  auto src = someValues<T>(srcSize, 1);
  if (nanAt >= 0)
    src[nanAt] = std::numeric_limits<Full<T>>::quiet_NaN();
  auto start = someValues<To>(dstEnd + 20, 2);
  std::vector<To> want = start;
  forEachIndex(zeros, [&](const Sizes &index) {
    want[offsetOf(index, zeroStrides)] = To(0);
  });
  forEachIndex(shape.shape, [&](const Sizes &index) {
    int64_t from = shape.srcOffset + offsetOf(index, shape.srcStrides);
    To &element = want[shape.dstOffset + offsetOf(index, shape.dstStrides)];
    if (shape.reduceShape.empty()) {
      element = src[from];
      return;
    }
    Full<T> result =
        shape.reduceMax ? -std::numeric_limits<Full<T>>::infinity() : 0;
    forEachIndex(shape.reduceShape, [&](const Sizes &inside) {
      Full<T> x = src[from + offsetOf(inside, shape.srcReduceStrides)];
      if (!shape.reduceMax)
        result += x;
      else if (std::isnan(x) || x > result)
        result = x;
    });
    element = result;
  });

  CompiledKernel kernel([&](auto module, auto name, mlir::Builder b) {
    shape.elementType = elementType<To>(b);
    shape.sourceType = elementType<T>(b);
    return emitPermute(module, name, shape);
  });
  for (int calls : {1, 2, 3, 7}) {
    std::vector<To> got = start;
    kernel.run({src.data(), got.data()}, {}, calls);
    EXPECT_TRUE(sameBits(got, want))
        << calls << " calls, " << kernel.launch.units << " units";
  }
}

PermuteShape copy(Sizes shape, Sizes src, Sizes dst) {
  PermuteShape s;
  s.shape = shape;
  s.srcStrides = src;
  s.dstStrides = dst;
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
                 int64_t elements) {
  PermuteShape s = copy(shape, src, dst);
  s.dstOffset = offset;
  s.zeroRows = 1;
  s.zeroColumns = s.zeroStride = elements;
  return s;
}

/// Returns a pad whose result has `rows` rows of `columns` elements. The rows
/// start `stride` elements apart.
PermuteShape padRows(Sizes shape, Sizes src, Sizes dst, int64_t offset,
                     int64_t rows, int64_t columns, int64_t stride) {
  PermuteShape s = pad(shape, src, dst, offset, columns);
  s.zeroRows = rows;
  s.zeroStride = stride;
  return s;
}

TEST(Permute, Copies) {
  check<float>(copy({1}, {1}, {1}));
  check<float>(copy({10000}, {1}, {1}));
  check<float>(copy({7, 33}, {40, 1}, {33, 1}));                      // Slice.
  check<float>(copy({3, 5, 4, 8}, {160, 32, 8, 1}, {160, 8, 40, 1})); // Heads.
  check<float>(copy({2, 9000}, {9500, 1}, {9000, 1}));                // Panels.
  check<float>(copy({20, 3}, {3, 1}, {5, 1}));
  check<double>(copy({5, 21}, {30, 1}, {21, 1}));
  PermuteShape offsets = copy({4, 20}, {25, 1}, {22, 1});
  offsets.srcOffset = 13;
  offsets.dstOffset = 3;
  check<float>(offsets);
}

TEST(Permute, Broadcasts) {
  check<float>(copy({6, 50}, {1, 0}, {50, 1})); // One value per row.
  check<float>(copy({6, 50}, {0, 1}, {50, 1})); // One value per column.
  check<float>(copy({300}, {0}, {1}));          // One value.
  check<float>(copy({3, 4, 17}, {17, 0, 1}, {68, 17, 1}));
}

TEST(Permute, Transposes) {
  check<float>(copy({32, 48}, {1, 32}, {48, 1}));
  check<float>(copy({37, 50}, {1, 37}, {50, 1}));
  check<float>(copy({3, 700}, {1, 3}, {700, 1}));
  check<float>(copy({700, 3}, {1, 700}, {3, 1}));
  check<float>(copy({3, 20, 35}, {700, 1, 20}, {700, 35, 1})); // Batches.
  check<float>(copy({20, 3, 35}, {1, 700, 20}, {105, 35, 1}));
  check<double>(copy({18, 33}, {1, 18}, {33, 1}));
}

TEST(Permute, Elements) {
  check<float>(copy({9, 11}, {3, 27}, {11, 1}));
  check<float>(copy({4, 6}, {6, 1}, {12, 2}));
}

TEST(Permute, Reductions) {
  check<float>(reduce({50}, {1}, {1}, {30}, {50})); // Column sums.
  check<float>(reduce({50}, {30}, {1}, {30}, {1})); // Row sums.
  check<float>(reduce({4, 50}, {500, 1}, {50, 1}, {10}, {50}));
  check<float>(reduce({6}, {60}, {1}, {5, 4}, {4, 1}, true));
  check<float>(reduce({20}, {1}, {1}, {3, 7}, {500, 20}, true));
  check<float>(reduce({1}, {0}, {1}, {100}, {1}));
  check<double>(reduce({33}, {1}, {1}, {9}, {33}));
}

TEST(Permute, BfloatsKeepTheirBits) {
  check<Bfloat>(copy({1}, {1}, {1}));
  check<Bfloat>(copy({10000}, {1}, {1}));
  check<Bfloat>(copy({7, 33}, {40, 1}, {33, 1}));
  check<Bfloat>(copy({3, 5, 4, 8}, {160, 32, 8, 1}, {160, 8, 40, 1}));
  check<Bfloat>(copy({20, 3}, {3, 1}, {5, 1}), /*nanAt=*/7);
  check<Bfloat>(copy({6, 50}, {1, 0}, {50, 1}));
  check<Bfloat>(copy({6, 50}, {0, 1}, {50, 1}));
  check<Bfloat>(copy({37, 50}, {1, 37}, {50, 1}), /*nanAt=*/100);
  check<Bfloat>(copy({3, 20, 35}, {700, 1, 20}, {700, 35, 1}));
  check<Bfloat>(copy({9, 11}, {3, 27}, {11, 1}));
  check<Bfloat>(pad({5000}, {1}, {1}, 4500, 9700));
  check<Bfloat>(pad({9, 80}, {80, 1}, {100, 1}, 2 * 100 + 10, 1300));
  check<Bfloat>(pad({70, 90}, {1, 70}, {100, 1}, 0, 7500));
  check<Bfloat>(padRows({9, 80}, {80, 1}, {150, 1}, 310, 13, 100, 150));
}

TEST(Permute, BfloatsAddUpInF32) {
  check<Bfloat>(reduce({50}, {1}, {1}, {300}, {50}));
  check<Bfloat>(reduce({50}, {30}, {1}, {30}, {1}));
  check<Bfloat>(reduce({4, 50}, {500, 1}, {50, 1}, {10}, {50}));
  check<Bfloat>(reduce({6}, {60}, {1}, {5, 4}, {4, 1}, true));
  check<Bfloat>(reduce({20}, {1}, {1}, {3, 7}, {500, 20}, true));
  check<Bfloat, float>(reduce({50}, {1}, {1}, {300}, {50}));
  check<Bfloat, float>(reduce({50}, {30}, {1}, {30}, {1}));
}

TEST(Permute, MaximumKeepsNaN) {
  check<float>(reduce({20}, {1}, {1}, {9}, {20}, true), 4 * 20 + 3);
  check<float>(reduce({6}, {9}, {1}, {9}, {1}, true), 9 * 2 + 4);
}

TEST(Permute, Pads) {
  check<float>(pad({5000}, {1}, {1}, 0, 20000)); // Zeros at the end.
  check<float>(pad({5000}, {1}, {1}, 4500, 9700));
  check<float>(pad({9, 80}, {80, 1}, {100, 1}, 0, 900)); // Zeros after rows.
  check<float>(pad({9, 80}, {80, 1}, {100, 1}, 2 * 100 + 10, 1300));
  check<float>(pad({3, 4, 9}, {36, 9, 1}, {140, 14, 1}, 143, 600));
  check<float>(pad({9, 8}, {8, 1}, {10, 1}, 12, 130));     // Thin slabs.
  check<float>(pad({70, 90}, {1, 70}, {100, 1}, 0, 7500)); // Transposed.
  check<float>(pad({40}, {0}, {1}, 30, 100));
}

/// Pads rows with a stride, as for one operand of a concatenation. Between the
/// rows are the rows of the other operands, which must not change.
TEST(Permute, PadsRowsThatLieApart) {
  check<float>(padRows({4, 8}, {8, 1}, {19, 1}, 2, 4, 11, 19)); // Thin slabs.
  check<float>(padRows({3, 8}, {8, 1}, {20, 1}, 42, 6, 10, 20));
  check<float>(
      padRows({9, 80}, {80, 1}, {150, 1}, 310, 13, 100, 150)); // Slabs.
  check<float>(
      padRows({10, 3, 2}, {6, 2, 1}, {30, 6, 1}, 36, 12 * 5, 2, 6)); // Rank 3.
  check<float>(
      padRows({10, 3, 9}, {27, 9, 1}, {100, 20, 1}, 120, 12 * 5, 9, 20));
  check<float>(
      padRows({1, 90}, {90, 1}, {120, 1}, 244, 5, 100, 120)); // One row.
  check<float>(padRows({30, 1}, {1, 1}, {100, 1}, 507, 40, 70, 100)); // Column.
  check<float>(padRows({70, 90}, {1, 70}, {140, 1}, 280, 75, 95, 140));
  check<double>(padRows({9, 80}, {80, 1}, {150, 1}, 310, 13, 100, 150));
}

} // namespace
