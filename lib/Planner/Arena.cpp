//===- Arena.cpp - Offsets of buffers in one arena --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Arena.h"

#include <algorithm>
#include <numeric>

using namespace kiln;

ArenaPlan kiln::assignOffsets(llvm::ArrayRef<ArenaBuffer> buffers, const ArenaOptions &) {
  ArenaPlan plan;
  plan.method = "size-first best fit";
  plan.offsets.assign(buffers.size(), -1);
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].size > buffers[b].size; });
  std::vector<size_t> placed;
  for (size_t i : order) {
    const ArenaBuffer &buffer = buffers[i];
    std::vector<std::pair<int64_t, int64_t>> busy;
    for (size_t j : placed)
      if (buffers[j].lower < buffer.upper && buffer.lower < buffers[j].upper)
        busy.push_back({plan.offsets[j], plan.offsets[j] + buffers[j].size});
    std::sort(busy.begin(), busy.end());
    int64_t at = 0, best = -1, bestGap = INT64_MAX;
    for (auto [begin, end] : busy) {
      if (begin - at >= buffer.size && begin - at < bestGap) {
        best = at;
        bestGap = begin - at;
      }
      at = std::max(at, (end + buffer.alignment - 1) / buffer.alignment * buffer.alignment);
    }
    plan.offsets[i] = best >= 0 ? best : at;
    plan.height = std::max(plan.height, plan.offsets[i] + buffer.size);
    placed.push_back(i);
  }
  return plan;
}
