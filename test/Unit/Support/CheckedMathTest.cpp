//===- CheckedMathTest.cpp - Tests of checked arithmetic ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses values that overflow the size checks of other safetensors readers.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/CheckedMath.h"
#include "gtest/gtest.h"
#include <vector>

using namespace kiln::support;
using namespace kiln;

namespace {

TEST(CheckedMath, Add) {
  EXPECT_EQ(checkedAdd<uint64_t>(UINT64_MAX - 1, 1), UINT64_MAX);
  EXPECT_EQ(checkedAdd<uint64_t>(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checkedAdd<int64_t>(INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checkedAdd<int64_t>(INT64_MIN, -1), std::nullopt);
}

TEST(CheckedMath, Mul) {
  EXPECT_EQ(checkedMul<uint64_t>(uint64_t{1} << 32, uint64_t{1} << 32),
            std::nullopt);
  EXPECT_EQ(checkedMul<int64_t>(INT64_MAX, 2), std::nullopt);
  EXPECT_EQ(checkedMul<int64_t>(INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(checkedMul<int64_t>(-3, 4), -12);
}

TEST(CheckedMath, AlignUp) {
  EXPECT_EQ(checkedAlignUp<uint64_t>(0, 64), 0u);
  EXPECT_EQ(checkedAlignUp<uint64_t>(1, 64), 64u);
  EXPECT_EQ(checkedAlignUp<uint64_t>(64, 64), 64u);
  EXPECT_EQ(checkedAlignUp<uint64_t>(65, 13), 65u);
  EXPECT_EQ(checkedAlignUp<uint64_t>(UINT64_MAX - 3, 32), std::nullopt);
  EXPECT_EQ(checkedAlignUp<uint64_t>(5, 0), std::nullopt);
  EXPECT_EQ(checkedAlignUp<int64_t>(-1, 8), std::nullopt);
  EXPECT_EQ(checkedAlignUp<int64_t>(5, -8), std::nullopt);
}

TEST(CheckedMath, Elements) {
  EXPECT_EQ(checkedElements(std::vector<int64_t>{}), 1);
  EXPECT_EQ(checkedElements(std::vector<int64_t>{2, 3}), 6);
  EXPECT_EQ(checkedElements(std::vector<int64_t>{0, 3}), 0);
  EXPECT_EQ(checkedElements(std::vector<int64_t>{2, -3}), std::nullopt);
  // One dimension is 0, so the tensor has no elements, but the product of the
  // other dimensions overflows.
  EXPECT_EQ(checkedElements(std::vector<int64_t>{INT64_MAX, 2, 0}),
            std::nullopt);
}

} // namespace
