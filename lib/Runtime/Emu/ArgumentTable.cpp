//===- ArgumentTable.cpp - Address ranges of a launch's arguments ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArgumentTable.h"

#include <algorithm>

using namespace kiln::runtime::emu;

void ArgumentTable::sort() {
  std::sort(ranges_.begin(), ranges_.end(), [](const Range &a, const Range &b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const char *lastEnd = nullptr;
  for (Range &range : ranges_)
    range.lastEnd = lastEnd = std::max(lastEnd, range.end);
}

// Visits the ranges that begin at or before the access, in descending order of
// their first addresses, until a range contains the access. Returns early if
// `lastEnd` shows that no unvisited range reaches the end of the access.
MemoryShadow *ArgumentTable::find(const char *begin, int64_t bytes) const {
  auto next = std::upper_bound(
      ranges_.begin(), ranges_.end(), begin,
      [](const char *at, const Range &range) { return at < range.begin; });
  while (next != ranges_.begin()) {
    const Range &range = *--next;
    if (range.lastEnd - begin < bytes)
      return nullptr;
    if (range.end - begin >= bytes)
      return range.shadow;
  }
  return nullptr;
}
