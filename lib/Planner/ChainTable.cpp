//===- ChainTable.cpp - Fastest persistent schedules ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainTable.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::chain;

static constexpr double infinity = std::numeric_limits<double>::infinity();
/// Number of consecutive memory sizes m, in slots, that form a block (see
/// ChainTable.h).
static constexpr int32_t blockSlots = 64;

Table::Table(const View &view, const Grid &grid)
    : view(view), grid(grid), ranges(view.numSegments()),
      rows(size_t(view.numSegments()) * (grid.slots + 1), infinity) {
  view.forEachSegment([&](const Segment &segment) {
    int32_t number = view.number(segment);
    ranges[number] = findRange(segment);
    fill(segment, &rows[size_t(number) * (grid.slots + 1)]);
  });
}

uint64_t Table::effortPerSlot(const View &view) {
  uint64_t effort = 0;
  view.forEachSegment(
      [&](const Segment &segment) { effort += view.numChoices(segment); });
  return effort;
}

/// Returns the least memory, in slots, of all schedules that start with this
/// choice.
int32_t Table::leastOf(const Choice &choice) const {
  int32_t stored = grid.round(choice.stored);
  int32_t least = std::max(grid.holding(choice.need),
                           stored + ranges[view.number(choice.right)].least);
  if (choice.hasLeft)
    least = std::max(least, ranges[view.number(choice.left)].least);
  return std::min(least, grid.slots + 1);
}

Table::Range Table::findRange(const Segment &segment) const {
  if (segment.first == segment.end) {
    int32_t least = grid.holding(view.emptyNeed(segment));
    return {least, least};
  }
  double fastest = infinity;
  for (const Option &option : view.options[segment.first])
    fastest = std::min(fastest, option.time);
  Range range{grid.slots + 1, grid.slots + 1};
  view.forEachChoice(segment, [&](const Choice &choice) {
    range.least = std::min(range.least, leastOf(choice));
    if (choice.hasLeft || choice.saving->time > fastest)
      return;
    int32_t enough = std::max(grid.holding(choice.need),
                              grid.round(choice.stored) +
                                  ranges[view.number(choice.right)].enough);
    range.enough = std::min(range.enough, enough);
  });
  return range;
}

void Table::fill(const Segment &segment, double *out) {
  Range range = ranges[view.number(segment)];
  if (segment.first == segment.end) {
    std::fill(out + range.least, out + grid.slots + 1, 0);
    return;
  }
  const int32_t last = std::min(range.enough, grid.slots);
  view.forEachChoice(segment, [&](const Choice &choice) {
    int32_t stored = grid.round(choice.stored), least = leastOf(choice);
    double time = choice.time;
    const double *right = row(choice.right);
    const double *left = choice.hasLeft ? row(choice.left) : nullptr;
    for (int32_t from = least; from <= last; from += blockSlots) {
      int32_t to = std::min(from + blockSlots - 1, last);
      // Times do not increase with the number of slots. In this block, the time
      // of the choice is therefore least with `to` slots, and the best time so
      // far is greatest with `from` slots. Skip the block if even the former is
      // not less than the latter.
      if (right[to - stored] + (left ? left[to] : 0) + time >= out[from])
        continue;
      if (left)
        for (int32_t m = from; m <= to; ++m)
          out[m] = std::min(out[m], right[m - stored] + left[m] + time);
      else
        for (int32_t m = from; m <= to; ++m)
          out[m] = std::min(out[m], right[m - stored] + time);
    }
  });
  if (range.enough < grid.slots)
    std::fill(out + range.enough + 1, out + grid.slots + 1, out[range.enough]);
}
