//===- ArenaProblem.cpp - The arena problem, reduced ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Maps lifetimes to sections. If the births and deaths (the starts and ends of
// lifetimes) are sorted by time, a section ends at each death that directly
// follows a birth. The set of live buffers is maximal just before such a death.
// A buffer belongs to the sections that end after its birth and not after its
// own death.
//
//===----------------------------------------------------------------------===//

#include "ArenaProblem.h"

#include <cassert>
#include <numeric>

using namespace kiln;
using namespace kiln::arena;

/// Returns the positions at which sections end, in ascending order.
static std::vector<int32_t> findSectionEnds(llvm::ArrayRef<ArenaBuffer> buffers,
                                            llvm::ArrayRef<int32_t> live) {
  std::vector<int32_t> births, deaths;
  for (int32_t index : live) {
    births.push_back(buffers[index].lower);
    deaths.push_back(buffers[index].upper);
  }
  std::sort(births.begin(), births.end());
  std::sort(deaths.begin(), deaths.end());

  std::vector<int32_t> ends;
  size_t born = 0;
  for (int32_t death : deaths) {
    size_t before = born;
    while (born < births.size() && births[born] < death)
      ++born;
    if (born != before)
      ends.push_back(death);
  }
  return ends;
}

std::vector<Problem> arena::reduce(llvm::ArrayRef<ArenaBuffer> buffers,
                                   int64_t &unit) {
  std::vector<int32_t> live;
  unit = 0;
  for (size_t i = 0, e = buffers.size(); i != e; ++i) {
    const ArenaBuffer &buffer = buffers[i];
    assert(buffer.size >= 0 && buffer.alignment > 0 &&
           buffer.lower <= buffer.upper &&
           "buffer must have size >= 0, alignment > 0 and lower <= upper");
    if (buffer.isEmpty())
      continue;
    live.push_back(static_cast<int32_t>(i));
    unit = std::gcd(unit, std::gcd(buffer.paddedSize(), buffer.alignment));
  }
  if (live.empty()) {
    unit = 1;
    return {};
  }

  std::vector<int32_t> ends = findSectionEnds(buffers, live);
  auto sectionOf = [&](int32_t position) {
    return static_cast<int32_t>(
        std::upper_bound(ends.begin(), ends.end(), position) - ends.begin());
  };
  std::vector<Item> items(buffers.size());
  for (int32_t index : live) {
    const ArenaBuffer &buffer = buffers[index];
    items[index] = {buffer.paddedSize() / unit, buffer.alignment / unit,
                    sectionOf(buffer.lower), sectionOf(buffer.upper),
                    int64_t(buffer.upper) - buffer.lower};
  }
  std::sort(live.begin(), live.end(), [&](int32_t a, int32_t b) {
    return items[a].first != items[b].first ? items[a].first < items[b].first
                                            : a < b;
  });

  std::vector<Problem> problems;
  int32_t reach = 0, origin = 0;
  for (int32_t index : live) {
    Item item = items[index];
    if (item.first >= reach) {
      origin = item.first;
      problems.emplace_back();
    }
    reach = std::max(reach, item.last);
    Problem &problem = problems.back();
    item.first -= origin;
    item.last -= origin;
    problem.items.push_back(item);
    problem.source.push_back(index);
  }
  for (Problem &problem : problems) {
    // Compute the loads as prefix sums of their changes, so that the cost does
    // not depend on the length of lifetimes.
    int32_t sections = 0;
    for (const Item &item : problem.items)
      sections = std::max(sections, item.last);
    problem.load.assign(sections + 1, 0);
    for (const Item &item : problem.items) {
      problem.load[item.first] += item.size;
      problem.load[item.last] -= item.size;
    }
    std::partial_sum(problem.load.begin(), problem.load.end(),
                     problem.load.begin());
    problem.load.pop_back();
  }
  return problems;
}
