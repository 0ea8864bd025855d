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

static Grid makeGrid(const View &view, int64_t bytes, int64_t slots) {
  Grid grid;
  grid.slot = exactSlot(view);
  if (bytes / grid.slot > slots)
    grid.slot = (bytes + slots - 1) / slots;
  grid.slots = static_cast<int32_t>(bytes / grid.slot);
  grid.rest = bytes % grid.slot;
  return grid;
}

/// How many pending options per stage a table of minSlots can afford.
static size_t affordablePending(const Chain &chain,
                                const ChainOptions &options) {
  size_t most = 0;
  for (const Stage &stage : chain.stages)
    most = std::max(most, stage.options.size());
  for (size_t pending = most; pending > 0; --pending) {
    View view(chain, options, pending, /*relaxed=*/false);
    if (Table::effortPerSlot(view) * options.minSlots <= options.tableEffort)
      return pending;
  }
  return 0;
}

ChainFloor kiln::smallestFeasibleBudget(const Chain &chain,
                                        const ChainOptions &options) {
  View view(chain, options, 0, /*relaxed=*/false);
  Floor floor(view);
  int64_t bytes = floor.bytes(view.whole());
  std::vector<ChainOp> ops;
  Table table(view, makeGrid(view, bytes, 1));
  Scheduler(view, table, floor).append(view.whole(), bytes, ops);
  ChainCost cost = simulate(chain, ops);
  const ChainOp &op = ops[cost.peakOp];
  return {bytes + view.value[0], op.stage, op.kind == ChainOpKind::Backward};
}

std::optional<ChainPlan> kiln::solveChain(const Chain &chain, int64_t budget,
                                          const ChainOptions &options) {
  size_t pending = affordablePending(chain, options);
  View view(chain, options, pending, /*relaxed=*/false);
  View relaxed(chain, options, std::max<size_t>(pending, 1), /*relaxed=*/true);
  int64_t bytes = budget - view.value[0];
  Floor floor(view);
  if (bytes < floor.bytes(view.whole()))
    return std::nullopt;
  ChainPlan plan;
  plan.time = std::numeric_limits<double>::infinity();
  uint64_t effort = Table::effortPerSlot(view);
  for (int64_t slots = options.minSlots;; slots *= 2) {
    Grid grid = makeGrid(view, bytes, slots);
    Table table(view, grid);
    std::vector<ChainOp> ops;
    Scheduler(view, table, floor).append(view.whole(), bytes, ops);
    ChainCost cost = simulate(chain, ops);
    assert(cost.ok() && cost.peak <= budget && "the planner is wrong");
    if (cost.time < plan.time) {
      plan.ops = std::move(ops);
      plan.time = plan.persistentTime = cost.time;
      plan.peak = cost.peak;
      plan.hostPeak = cost.hostPeak;
      plan.slots = grid.slots;
    }
    grid.roundUp = false;
    plan.persistentBound =
        std::max(plan.persistentBound,
                 Table(relaxed, grid).time(view.whole(), grid.slots));
    if (plan.persistentBound >= plan.time * (1 - options.gap) ||
        slots * 2 > options.maxSlots ||
        effort * slots * 2 > options.tableEffort)
      break;
  }
  return plan;
}
