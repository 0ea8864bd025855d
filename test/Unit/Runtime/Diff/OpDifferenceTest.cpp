//===- OpDifferenceTest.cpp - Tests of the first differing op -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpDifference.h"

#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

OpRecord op(const std::string &name, const std::string &hash,
            int64_t bytes = 64) {
  return {"launch", name, name + ".result", bytes, 1, hash, hash};
}

OpRecord repeated(const std::string &name, int64_t bytes, int64_t executions,
                const std::string &all, const std::string &last) {
  return {"launch", name, name + ".result", bytes, executions, all, last};
}

TEST(OpDifferenceTest, NamesTheFirstOpWithOtherBits) {
  auto found = firstDifferentOp({op("a", "1"), op("b", "2"), op("c", "3")},
                                {op("a", "1"), op("b", "9"), op("c", "8")});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->a.name, "b");
  EXPECT_EQ(found->b.all, "9");
  EXPECT_EQ(found->equalBefore, 1);
}

TEST(OpDifferenceTest, EqualStepsHaveNone) {
  EXPECT_FALSE(firstDifferentOp({op("a", "1")}, {op("a", "1")}));
  EXPECT_FALSE(firstDifferentOp({}, {}));
}

TEST(OpDifferenceTest, AnotherOrderIsNoDifference) {
  EXPECT_FALSE(firstDifferentOp({op("a", "1"), op("b", "2")},
                                {op("b", "2"), op("a", "1")}));
}

TEST(OpDifferenceTest, RecomputedValuesAreTheSameValues) {
  auto found = firstDifferentOp({op("a", "1"), op("b", "2")},
                                {op("a", "1"), op("a", "1"), op("b", "3")});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->a.name, "b");
}

TEST(OpDifferenceTest, ValuesThatOnlyOneSideHasArePassedOver) {
  // Executable A (the first list) writes the matmul and then its sum with the
  // bias. Executable B writes only the sum.
  auto found =
      firstDifferentOp({op("a", "product"), op("a", "sum"), op("b", "2")},
                       {op("a", "sum"), op("x", "4"), op("b", "3")});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->a.name, "b");
  EXPECT_FALSE(firstDifferentOp({op("a", "1"), op("a", "2")}, {op("a", "3")}));
  EXPECT_FALSE(firstDifferentOp({op("a", "1", 32)}, {op("a", "2", 64)}));
}

TEST(OpDifferenceTest, OpsOfOneBufferMustHaveOneName) {
  OpRecord other = op("a", "2");
  other.kind = "gemm";
  EXPECT_FALSE(firstDifferentOp({op("a", "1")}, {other}));
}

TEST(OpDifferenceTest, MicrobatchesAreRowsOrSums) {
  // B has two micro-batches and computes 'rows' and 'sum' in each of them. A's
  // 'rows' is the concatenation of B's two results 'rows', and A's 'sum' is the
  // total of B's two results 'sum'.
  EXPECT_FALSE(firstDifferentOp(
      {op("rows", "r", 64), op("sum", "s", 16)},
      {repeated("rows", 32, 2, "r", "half"), repeated("sum", 16, 2, "x", "s")}));
  auto found = firstDifferentOp(
      {op("rows", "r", 64), op("sum", "s", 16)},
      {repeated("rows", 32, 2, "r", "half"), repeated("sum", 16, 2, "x", "t")});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->a.name, "sum");
}

} // namespace
