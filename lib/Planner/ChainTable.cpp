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
  view.forEachSegment([&](int32_t i, int32_t l) {
    fill(i, l, &rows[size_t(view.segment(i, l)) * (grid.slots + 1)]);
  });
}

uint64_t Table::effortPerSlot(const View &view) {
  uint64_t effort = 0;
  view.forEachSegment([&](int32_t i, int32_t l) {
    effort += (l - i) + view.options[i].size();
  });
  return effort;
}

void Table::fill(int32_t i, int32_t l, double *out) const {
  view.forEachChoice(i, l, [&](const Choice &choice) {
    int32_t stored = grid.round(choice.stored);
    int32_t least = std::max(stored, grid.holding(choice.need));
    if (least > grid.slots)
      return;
    // The last slot count as a local: its reload would stop vectorisation.
    int32_t slots = grid.slots;
    double time = choice.time;
    const double *right =
        choice.stop <= l ? row(choice.stop, l) - stored : nullptr;
    const double *left = choice.saving ? nullptr : row(i, choice.stop - 1);
    if (left)
      for (int32_t m = least; m <= slots; ++m)
        out[m] = std::min(out[m], right[m] + left[m] + time);
    else if (right)
      for (int32_t m = least; m <= slots; ++m)
        out[m] = std::min(out[m], right[m] + time);
    else
      for (int32_t m = least; m <= slots; ++m)
        out[m] = std::min(out[m], time);
  });
}
