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

#include "ChainDual.h"
#include "ChainMoves.h"
#include "ChainSchedule.h"

#include <cassert>

using namespace kiln;
using namespace kiln::chain;

namespace {

/// A schedule of least memory, over all options, whatever its time.
struct Leanest {
  Leanest(const Chain &chain, const ChainOptions &options);

  int64_t bytes = 0; // with a_0
  std::vector<ChainOp> ops;
};

} // namespace

Leanest::Leanest(const Chain &chain, const ChainOptions &options) {
  // Without times, few options are left that no other one dominates.
  Chain timeless = chain;
  for (Stage &stage : timeless.stages) {
    stage.fastForward = 0;
    for (StageOption &option : stage.options)
      option.forward = option.backward = 0;
  }
  View view(timeless, options);
  view.setPendingAll();
  Floor floor(view);
  int64_t least = floor.bytes(view.whole());
  Table table(view, makeGrid(view, least, 1, Grid::Rounding::Up));
  Scheduler(view, table, floor).append(view.whole(), least, ops);
  bytes = least + view.value[0];
}

ChainFloor kiln::smallestFeasibleBudget(const Chain &chain,
                                        const ChainOptions &options) {
  Leanest leanest(chain, options);
  const ChainOp &op = leanest.ops[simulate(chain, leanest.ops).peakOp];
  return {leanest.bytes, op.stage, op.kind == ChainOpKind::Backward};
}

namespace {

/// One call of solveChain.
class Solver {
public:
  Solver(const Chain &chain, int64_t budget, const ChainOptions &options);

  std::optional<ChainPlan> solve();

private:
  bool saveEverything();
  void useTables();
  uint64_t plan(const View &view, const Floor &floor, int64_t slots);
  void bound(const View &relaxed, int64_t slots);
  bool isCloseEnough() const;
  void consider(std::vector<ChainOp> ops, int32_t slots);

  const Chain &chain;
  const ChainOptions &options;
  int64_t budget, bytes; // bytes without a_0
  View view;
  Dual dual;
  ChainPlan best;
};

} // namespace

Solver::Solver(const Chain &chain, int64_t budget, const ChainOptions &options)
    : chain(chain), options(options), budget(budget),
      bytes(budget - chain.value(0)), view(chain, options), dual(view, bytes) {}

/// Keeps a schedule if it is the fastest so far.
void Solver::consider(std::vector<ChainOp> ops, int32_t slots) {
  ChainCost cost = simulate(chain, ops);
  assert(cost.ok() && cost.peak <= budget && "the planner is wrong");
  if (!best.ops.empty() && cost.time >= best.time)
    return;
  best.ops = std::move(ops);
  best.time = cost.time;
  best.peak = cost.peak;
  best.hostPeak = cost.hostPeak;
  best.slots = slots;
}

/// The fastest option everywhere, without a table, if the budget allows it.
bool Solver::saveEverything() {
  std::vector<ChainOp> ops;
  for (int32_t i = 0; i < view.size(); ++i) {
    auto faster = [](const Option &a, const Option &b) {
      return a.time < b.time;
    };
    const auto &menu = view.options[i];
    int32_t fastest = std::min_element(menu.begin(), menu.end(), faster)->index;
    ops.push_back({ChainOpKind::ForwardSave, i, fastest});
  }
  for (int32_t i = view.size(); i-- > 0;)
    ops.push_back({ChainOpKind::Backward, i, -1});
  if (simulate(chain, ops).peak > budget)
    return false;
  consider(std::move(ops), 0);
  return true;
}

/// Plans with a table of that many slots; the steps it took.
uint64_t Solver::plan(const View &view, const Floor &floor, int64_t slots) {
  uint64_t steps = 0;
  for (auto rounding : {Grid::Rounding::Up, Grid::Rounding::Nearest}) {
    Grid grid = makeGrid(view, bytes, slots, rounding);
    if (grid.slot == exactSlot(view) && rounding == Grid::Rounding::Nearest)
      continue;
    Table table(view, grid);
    std::vector<ChainOp> ops;
    Scheduler(view, table, floor).append(view.whole(), bytes, ops);
    consider(std::move(ops), grid.slots);
    steps += Table::effortPerSlot(view) * (grid.slots + 1);
  }
  return steps;
}

/// A bound with a table of that many slots.
void Solver::bound(const View &relaxed, int64_t slots) {
  Grid grid = makeGrid(relaxed, bytes, slots, Grid::Rounding::Down);
  Table table(relaxed, grid);
  double bound = table.time(relaxed.whole(), grid.slots) * (1 - 1e-10);
  best.persistentBound = std::max(best.persistentBound, bound);
}

bool Solver::isCloseEnough() const {
  return best.persistentBound >= best.time * (1 - options.gap);
}

/// Few slots and more pending options first, then the other way round: the one
/// matters when memory is scarce, the other when stages save a lot. What is
/// left of the effort goes into the bound, for which more options matter most.
void Solver::useTables() {
  uint64_t exact = bytes / exactSlot(view) + 1;
  auto affordable = [&](uint64_t slots, uint64_t effort) {
    return std::min(slots, exact) * Table::effortPerSlot(view) <= effort;
  };
  std::vector<double> prices = dual.savedPrices();
  uint64_t limit = options.tableEffort, steps = 0;
  int64_t slots = options.minSlots;
  auto planWith = [&](size_t pending, uint64_t until) {
    view.setPending(pending, prices);
    Floor floor(view);
    if (bytes < floor.bytes(view.whole()))
      return;
    for (; slots <= options.maxSlots && !isCloseEnough(); slots *= 2) {
      // A first plan without pending options is always made.
      bool optional = steps > 0 || pending > 0;
      if (optional && !affordable(2 * slots, until - std::min(until, steps)))
        return;
      steps += plan(view, floor, slots);
    }
  };

  size_t pending = view.largestMenu();
  for (; pending > 1; --pending) {
    view.setPending(pending, prices);
    if (affordable(14 * options.minSlots, limit * 2 / 5))
      break;
  }
  planWith(pending, limit * 2 / 5);
  planWith(1, limit * 3 / 4);
  planWith(0, limit * 3 / 4);

  if (isCloseEnough())
    return;
  View relaxed = view;
  for (pending = view.largestMenu(); pending > 0; --pending) {
    relaxed.setPendingRelaxed(pending);
    uint64_t most = limit / 4 / Table::effortPerSlot(relaxed);
    if (most >= std::min<uint64_t>(options.minSlots, exact)) {
      bound(relaxed, std::min<uint64_t>(most, options.maxSlots));
      return;
    }
  }
}

std::optional<ChainPlan> Solver::solve() {
  best.bound = best.persistentBound = dual.maximize();
  if (saveEverything()) {
    best.persistentTime = best.time;
    return best;
  }
  Leanest leanest(chain, options);
  if (budget < leanest.bytes)
    return std::nullopt;
  consider(std::move(leanest.ops), 0);
  useTables();
  best.persistentTime = best.time;
  if (!options.persistentOnly && best.time > best.bound) {
    Moves moves(chain, view, budget, options.moveEffort);
    consider(moves.improve(best.ops), best.slots);
  }
  return best;
}

std::optional<ChainPlan> kiln::solveChain(const Chain &chain, int64_t budget,
                                          const ChainOptions &options) {
  return Solver(chain, budget, options).solve();
}

std::vector<std::optional<ChainPlan>>
kiln::solveChainLadder(const Chain &chain, llvm::ArrayRef<int64_t> budgets,
                       const ChainOptions &options) {
  std::vector<std::optional<ChainPlan>> plans;
  for (int64_t budget : budgets) {
    std::optional<ChainPlan> plan = solveChain(chain, budget, options);
    if (!plans.empty() && plans.back() && plan->time > plans.back()->time) {
      ChainPlan smaller = *plans.back();
      smaller.bound = plan->bound;
      smaller.persistentBound = plan->persistentBound;
      smaller.persistentTime =
          std::min(smaller.persistentTime, plan->persistentTime);
      plan = std::move(smaller);
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}
