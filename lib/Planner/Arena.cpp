//===- Arena.cpp - Offsets of buffers in one static arena -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Splits the buffers into problems that are independent in time, and places the
// buffers of each problem in greedy orders. The exact search then lowers the
// placements whose height is above a target height, in the order of decreasing
// height. For each placement, it tries the target first and then heights found
// by bisection. The height of the arena is the maximum over all problems, so if
// a placement cannot be lowered to the target, its height becomes the target of
// the following problems.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Arena.h"

#include "ArenaProblem.h"
#include "ArenaSearch.h"

using namespace kiln;
using namespace kiln::arena;

/// The search stores a list of items for each section (a maximal set of buffers
/// that are live together). If these lists have more than this number of
/// entries in total, only the greedy orders are used.
static constexpr size_t kMaxSectionEntries = size_t(32) << 20;

namespace {
struct Solution {
  const Problem *problem;
  Placement placement;
  int64_t lowerBound;
  std::string method;
};
} // namespace

static bool isSearchable(const Problem &problem, uint64_t steps) {
  size_t entries = 0;
  for (const Item &item : problem.items)
    entries += item.numSections();
  return entries <= kMaxSectionEntries && entries < steps / 16;
}

/// Lowers the height of a solution towards `target`. Heights below `target`
/// have no benefit. Raises the lower bound of the solution if the search proves
/// that a height is infeasible.
static void lower(Solution &solution, int64_t target, Effort &effort,
                  uint64_t &nodes) {
  if (!isSearchable(*solution.problem, effort.left()))
    return;
  ArenaSearch search(*solution.problem);
  // Heights up to `tried` are not tried again: they are below the target, or
  // the search at the height `tried` found no solution or ran out of effort.
  // The first attempt may use 1/2 of the remaining effort, every later attempt
  // 1/4.
  int64_t tried = target - 1, candidate = target;
  uint64_t share = 2;
  while (tried + 1 < solution.placement.height && !effort.exhausted()) {
    Effort slice(effort.left() / share);
    share = 4;
    ArenaSearch::Outcome outcome = search.fit(candidate, slice);
    effort.spend(slice.spent());
    if (outcome == ArenaSearch::Outcome::Fits) {
      solution.placement = search.placement();
      solution.method = "search";
    } else {
      tried = candidate;
      if (outcome == ArenaSearch::Outcome::Infeasible)
        solution.lowerBound = std::max(solution.lowerBound, candidate + 1);
    }
    candidate = tried + (solution.placement.height - tried) / 2;
  }
  nodes += search.nodes();
}

ArenaPlan kiln::assignOffsets(llvm::ArrayRef<ArenaBuffer> buffers,
                              const ArenaOptions &options) {
  ArenaPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  plan.optimal = true;
  plan.method = "no buffers";
  int64_t unit = 1;
  std::vector<Problem> problems = reduce(buffers, unit);
  if (problems.empty())
    return plan;

  int64_t maxLoad = 0;
  for (const Problem &problem : problems)
    maxLoad = std::max(maxLoad, problem.maxLoad());
  int64_t target = std::max(maxLoad, options.capacity / unit);

  Effort effort(options.effort);
  std::vector<Solution> solutions;
  for (const Problem &problem : problems) {
    Solution solution = {&problem, {}, problem.maxLoad(), ""};
    solution.placement =
        placeGreedily(problem, target, effort, solution.method);
    solutions.push_back(std::move(solution));
  }
  std::sort(solutions.begin(), solutions.end(),
            [](const Solution &a, const Solution &b) {
              return a.placement.height != b.placement.height
                         ? a.placement.height > b.placement.height
                         : a.problem < b.problem;
            });
  size_t toLower = 0;
  while (toLower < solutions.size() &&
         solutions[toLower].placement.height > target)
    ++toLower;
  for (size_t i = 0; i < toLower; ++i) {
    if (solutions[i].placement.height > target) {
      Effort slice(effort.left() / (toLower - i));
      lower(solutions[i], target, slice, plan.nodes);
      effort.spend(slice.spent());
    }
    target = std::max(target, solutions[i].placement.height);
  }

  int64_t height = 0, lowerBound = 0;
  for (const Solution &solution : solutions) {
    if (solution.placement.height > height) {
      height = solution.placement.height;
      plan.method = solution.method;
    }
    lowerBound = std::max(lowerBound, solution.lowerBound);
    for (size_t i = 0; i < solution.problem->items.size(); ++i)
      plan.offsets[solution.problem->source[i]] =
          solution.placement.offsets[i] * unit;
  }
  plan.height = height * unit;
  plan.maxLive = maxLoad * unit;
  plan.lowerBound = lowerBound * unit;
  plan.optimal = height == lowerBound;
  plan.steps = effort.spent();
  return plan;
}
