//===- TensorDifferenceTest.cpp - Tests of tensor differences and bounds --===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorDifference.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace kiln::runtime;
using namespace kiln;

namespace {

TensorDifference compare(const std::vector<float> &a,
                         const std::vector<float> &b) {
  DifferenceMeter meter(ElementType::F32);
  meter.add(a.data(), b.data(), int64_t(a.size()));
  return meter.result();
}

TEST(TensorDifferenceTest, EqualTensorsDifferNowhere) {
  TensorDifference difference = compare({1, -2, 3}, {1, -2, 3});
  EXPECT_EQ(difference.elements, 3);
  EXPECT_EQ(difference.different, 0);
  EXPECT_EQ(difference.first, -1);
  EXPECT_EQ(difference.norm, 0);
  EXPECT_EQ(difference.relative(), 0);
  EXPECT_DOUBLE_EQ(difference.normA, std::sqrt(14.0));
}

TEST(TensorDifferenceTest, FindsTheFirstElementAndTheLargestDifference) {
  TensorDifference difference = compare({1, 2, 3, 4}, {1, 2.5, 3, 0});
  EXPECT_EQ(difference.different, 2);
  EXPECT_EQ(difference.first, 1);
  EXPECT_EQ(difference.firstA, 2);
  EXPECT_EQ(difference.firstB, 2.5);
  EXPECT_EQ(difference.maxAbsolute, 4);
  EXPECT_DOUBLE_EQ(difference.norm, std::sqrt(16.25));
  EXPECT_DOUBLE_EQ(difference.relative(), std::sqrt(16.25 / 30));
}

TEST(TensorDifferenceTest, PiecesAreOneTensor) {
  std::vector<double> a(3000, 1.0), b = a;
  b[1700] = 2;
  DifferenceMeter meter(ElementType::F64);
  meter.add(a.data(), b.data(), 1100);
  meter.add(a.data() + 1100, b.data() + 1100, 1900);
  EXPECT_EQ(meter.result().elements, 3000);
  EXPECT_EQ(meter.result().first, 1700);
  EXPECT_EQ(meter.result().different, 1);
}

TEST(TensorDifferenceTest, BitsDecide) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(compare({nan}, {nan}).different, 0);
  TensorDifference zeros = compare({0.0f}, {-0.0f});
  EXPECT_EQ(zeros.different, 1);
  EXPECT_EQ(zeros.maxUlps, 0u);
  EXPECT_EQ(zeros.norm, 0);
  EXPECT_TRUE(std::isnan(compare({nan, 1}, {1, 1}).norm));
  EXPECT_TRUE(std::isinf(compare({INFINITY}, {1}).norm));
}

TEST(TensorDifferenceTest, CountsUlpsAcrossZeroAndInEveryType) {
  float one = 1, next = std::nextafter(1.0f, 2.0f);
  EXPECT_EQ(ulpsBetween(ElementType::F32, &one, &next), 1u);
  float tiny = std::numeric_limits<float>::denorm_min(), negative = -tiny;
  EXPECT_EQ(ulpsBetween(ElementType::F32, &tiny, &negative), 2u);
  double largest = std::numeric_limits<double>::max(), lowest = -largest;
  uint64_t bits;
  std::memcpy(&bits, &largest, sizeof(bits));
  EXPECT_EQ(ulpsBetween(ElementType::F64, &largest, &lowest), 2 * bits);
  uint16_t half = 0x3c00, halfNext = 0x3c01;
  EXPECT_EQ(ulpsBetween(ElementType::F16, &half, &halfNext), 1u);
  EXPECT_EQ(ulpsBetween(ElementType::BF16, &half, &halfNext), 1u);
  int32_t integer = 1, other = 5;
  EXPECT_EQ(ulpsBetween(ElementType::I32, &integer, &other), 0u);
}

TEST(TensorDifferenceTest, TheBoundGrowsWithEveryTerm) {
  EXPECT_DOUBLE_EQ(roundingBound(0.5, 16, 3, 0.25), 8 * (4 * 0.5 * 3 + 0.25));
  EXPECT_EQ(roundingBound(0, 16, 3, 0), 0);
}

/// Checks the rounding bound on sums that are evaluated in two orders.
TEST(TensorDifferenceTest, ReorderedSumsLieWithinTheBound) {
  constexpr int sums = 64, terms = 1000;
  std::vector<float> forward(sums), backward(sums);
  for (int i = 0; i < sums; ++i) {
    for (int j = 0; j < terms; ++j) {
      forward[size_t(i)] += 1.0f / float(1 + (i + j) % terms);
      backward[size_t(i)] += 1.0f / float(1 + (i + terms - 1 - j) % terms);
    }
  }
  TensorDifference difference = compare(forward, backward);
  EXPECT_GT(difference.different, 0);
  EXPECT_LT(difference.norm,
            roundingBound(0x1p-23, terms, difference.normA, 0));
}

} // namespace
