//===- EvenMergeTest.cpp - Merge of two lists with equal progress ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/EvenMerge.h"

#include "gtest/gtest.h"

#include <string>

using kiln::support::mergeEvenly;

namespace {

/// Returns the merged list as text, with an "a" for each item of the first list
/// and a "b" for each item of the second list.
std::string merged(const std::vector<int64_t> &first,
                   const std::vector<int64_t> &second) {
  std::string text;
  for (bool isSecond : mergeEvenly(first, second))
    text += isSecond ? 'b' : 'a';
  return text;
}

} // namespace

TEST(EvenMerge, ListsProgressEvenly) {
  EXPECT_EQ(merged({1, 1, 1, 1}, {5, 5}), "abaaba");
  EXPECT_EQ(merged({3, 1}, {1, 1, 1, 1}), "babbab");
  EXPECT_EQ(merged({1, 1}, {1, 1}), "abab");
}

TEST(EvenMerge, ItemsWithoutWeight) {
  EXPECT_EQ(merged({0, 0, 2}, {1, 1}), "aabab");
  EXPECT_EQ(merged({0, 0}, {1, 1}), "aabb");
  EXPECT_EQ(merged({1, 1}, {0, 0}), "aabb");
}

TEST(EvenMerge, EmptyLists) {
  EXPECT_EQ(merged({}, {1, 2}), "bb");
  EXPECT_EQ(merged({1, 2}, {}), "aa");
  EXPECT_EQ(merged({}, {}), "");
}
