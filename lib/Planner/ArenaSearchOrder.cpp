//===- ArenaSearchOrder.cpp - Key orders of the exact search ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Defines the order in which the search prefers items with the same floor (the
// lowest offset above the placed items). An order compares several measures
// lexicographically, larger values first. The first runs use fixed measures.
// Later runs first compare the weights of sections whose items did not fit, and
// perturb the other measures by noise. The noise depends only on the run and
// the shape of an item, so equal items stay adjacent.
//
//===----------------------------------------------------------------------===//

#include "ArenaSearch.h"

#include <array>
#include <iterator>
#include <numeric>

using namespace kiln;
using namespace kiln::arena;

namespace {
/// Properties of an item (a buffer), by which the search orders items. A
/// section is a set of items that are live together.
enum Measure : uint8_t {
  Sections,     ///< Number of sections that contain the item.
  ByteSections, ///< Size of the item x number of its sections.
  PeakLoad,     ///< Maximum load (live bytes) of its sections.
  PeakWeight,   ///< Maximum weight (see ArenaSearch.h) of its sections.
  NumMeasures
};
using Order = std::array<Measure, 3>;
} // namespace

static constexpr Order kFixedOrders[] = {
    {Sections, ByteSections, PeakLoad},
    {PeakLoad, ByteSections, Sections},
    {PeakLoad, Sections, ByteSections},
};
static constexpr Order kLearnedOrders[] = {
    {PeakWeight, PeakLoad, Sections},
    {PeakWeight, Sections, ByteSections},
};
/// Relative width of the noise, which multiplies a measure by a random factor
/// that differs from 1 by at most half of this width.
static constexpr double kNoise = 0.1;

static uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

std::vector<int32_t> ArenaSearch::makeOrder(unsigned run) {
  constexpr unsigned numFixed = std::size(kFixedOrders);
  const bool isLearned = run >= numFixed;
  const Order &order =
      isLearned ? kLearnedOrders[(run - numFixed) % std::size(kLearnedOrders)]
                : kFixedOrders[run];

  std::vector<std::array<double, NumMeasures>> measures(numItems);
  for (int32_t i = 0; i < numItems; ++i) {
    const Item &item = problem.items[i];
    auto &measure = measures[i];
    int64_t load = 0;
    double weight = 0;
    for (int32_t s = item.first; s < item.last; ++s) {
      load = std::max(load, problem.load[s]);
      weight = std::max(weight, weights[s]);
    }
    measure[Sections] = item.numSections();
    measure[ByteSections] = measure[Sections] * static_cast<double>(item.size);
    measure[PeakLoad] = static_cast<double>(load);
    measure[PeakWeight] = weight;
    steps += item.numSections();
    if (!isLearned)
      continue;
    uint64_t noise = mix(uint64_t(item.size) * 0x9e3779b97f4a7c15u + run +
                         mix((uint64_t(item.first) << 32) | item.last));
    for (Measure blurred : {Sections, ByteSections, PeakLoad}) {
      noise = mix(noise + blurred + 1);
      double uniform = static_cast<double>(noise >> 11) * 0x1p-53;
      measure[blurred] *= 1 + kNoise * (uniform - 0.5);
    }
  }

  std::vector<int32_t> ranks(numItems);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::sort(ranks.begin(), ranks.end(), [&](int32_t a, int32_t b) {
    for (Measure measure : order)
      if (measures[a][measure] != measures[b][measure])
        return measures[a][measure] > measures[b][measure];
    return a < b;
  });
  steps += 16 * numItems;
  return ranks;
}
