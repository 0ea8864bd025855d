//===- ChainPlanner.cpp - Fast schedules within a byte budget ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses grids, refines them until plan and bound meet, and keeps the best
// plan. Every plan is simulated before it is returned.
//
//===----------------------------------------------------------------------===//

#include "ChainSchedule.h"

#include <cassert>
#include <numeric>

using namespace kiln;
using namespace kiln::chain;

ChainFloor kiln::smallestFeasibleBudget(const Chain &chain,
                                        const ChainOptions &options) {
  View view(chain, options);
  ChainFloor floor = Floor(view).of(0, view.size() - 1);
  floor.bytes += view.value[0];
  return floor;
}

/// The greatest slot of which all stored sizes are multiples.
static int64_t exactSlot(const View &view) {
  int64_t slot = 0;
  for (int32_t i = 0; i < view.size(); ++i) {
    if (i > 0)
      slot = std::gcd(slot, view.value[i]);
    for (const Option &option : view.options[i])
      slot = std::gcd(slot, option.saved);
  }
  return std::max<int64_t>(slot, 1);
}

static Grid makeGrid(const View &view, int64_t bytes, int32_t slots) {
  Grid grid;
  grid.slot = exactSlot(view);
  if (bytes / grid.slot > slots)
    grid.slot = (bytes + slots - 1) / slots;
  grid.slots = static_cast<int32_t>(bytes / grid.slot);
  grid.rest = bytes % grid.slot;
  return grid;
}

std::optional<ChainPlan> kiln::solveChain(const Chain &chain, int64_t budget,
                                          const ChainOptions &options) {
  View view(chain, options);
  int32_t last = view.size() - 1;
  int64_t bytes = budget - view.value[0];
  Floor floor(view);
  if (bytes < floor.bytesOf(0, last))
    return std::nullopt;
  Grid grid = makeGrid(view, bytes, options.minSlots);
  Table table(view, grid);
  ChainPlan plan;
  Scheduler(view, table, floor).append(0, last, bytes, plan.ops);
  ChainCost cost = simulate(chain, plan.ops);
  assert(cost.ok() && cost.peak <= budget && "the planner is wrong");
  plan.time = plan.persistentTime = cost.time;
  plan.peak = cost.peak;
  plan.hostPeak = cost.hostPeak;
  plan.slots = grid.slots;
  return plan;
}
