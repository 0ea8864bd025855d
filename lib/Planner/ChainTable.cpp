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

Table::Table(const View &view, const Grid &grid)
    : view(view), grid(grid),
      rows(size_t(view.numSegments()) * (grid.slots + 1), infinity) {
  view.forEachSegment([&](const Segment &segment) {
    fill(segment, &rows[size_t(view.number(segment)) * (grid.slots + 1)]);
  });
}

uint64_t Table::effortPerSlot(const View &view) {
  uint64_t effort = 0;
  view.forEachSegment(
      [&](const Segment &segment) { effort += view.numChoices(segment); });
  return effort;
}

void Table::fill(const Segment &segment, double *out) const {
  // A local: reloading it would stop vectorisation.
  const int32_t slots = grid.slots;
  if (segment.first == segment.end) {
    for (int32_t m = grid.holding(view.emptyNeed(segment)); m <= slots; ++m)
      out[m] = 0;
    return;
  }
  view.forEachChoice(segment, [&](const Choice &choice) {
    int32_t stored = grid.round(choice.stored);
    int32_t least = std::max(stored, grid.holding(choice.need));
    if (least > slots)
      return;
    double time = choice.time;
    const double *right = row(choice.right);
    if (!choice.hasLeft) {
      for (int32_t m = least; m <= slots; ++m)
        out[m] = std::min(out[m], right[m - stored] + time);
      return;
    }
    const double *left = row(choice.left);
    for (int32_t m = least; m <= slots; ++m)
      out[m] = std::min(out[m], right[m - stored] + left[m] + time);
  });
}
