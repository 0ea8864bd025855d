//===- ChainPlanner.cpp - Fast schedules within a byte budget ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds a fast schedule within a memory budget by dynamic programming. The
// tables of the dynamic program count memory in slots of equal size. Computes
// tables with smaller and smaller slots, until the time of the best schedule is
// close to a lower bound or the effort is spent. Every schedule is simulated
// before it is returned.
//
//===----------------------------------------------------------------------===//

#include "ChainDual.h"
#include "ChainExtremes.h"
#include "ChainMoves.h"
#include "ChainSchedule.h"

using namespace kiln;
using namespace kiln::chain;

ChainFloor kiln::smallestFeasibleBudget(const Chain &chain,
                                        const ChainOptions &options) {
  return Leanest(chain, options).floor(chain);
}

namespace {

/// Plans the schedule of a chain (a sequence of stages) for one memory budget.
class Solver {
public:
  Solver(const Chain &chain, int64_t budget, const ChainOptions &options);

  std::optional<ChainPlan> solve();

private:
  void useTables();
  uint64_t plan(const View &view, const Floor &floor, int64_t slots);
  void bound(const View &relaxed, int64_t slots);
  bool isCloseEnough() const;
  bool consider(std::vector<ChainOp> ops, int32_t slots);

  const Chain &chain;
  const ChainOptions &options;
  int64_t budget, bytes; // `bytes` excludes a_0, the input of the chain.
  View view;
  Dual dual;
  ChainPlan best;
};

} // namespace

Solver::Solver(const Chain &chain, int64_t budget, const ChainOptions &options)
    : chain(chain), options(options), budget(budget),
      bytes(budget - chain.value(0)), view(chain, options), dual(view, bytes) {}

/// Stores a schedule if it fits and is the fastest so far.
bool Solver::consider(std::vector<ChainOp> ops, int32_t slots) {
  return considerOps(chain, budget, std::move(ops), slots, best);
}

/// Plans with a table of `slots` slots. Returns the number of elementary steps
/// that this takes.
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

/// Raises best.persistentBound, a lower bound on the time, if a dynamic program
/// over `relaxed` with at most `slots` slots of memory gives a higher bound.
void Solver::bound(const View &relaxed, int64_t slots) {
  Grid grid = makeGrid(relaxed, bytes, slots, Grid::Rounding::Down);
  Table table(relaxed, grid);
  double bound = table.time(relaxed.whole(), grid.slots) * (1 - 1e-10);
  best.persistentBound = std::max(best.persistentBound, bound);
}

bool Solver::isCloseEnough() const {
  return best.persistentBound >= best.time * (1 - options.gap);
}

/// Plans with tables of the dynamic program, which measures memory in slots of
/// equal size. More slots improve plans if stages save many bytes. Pending
/// options, with which a stage saves and drops its input (see
/// View::setPending()), improve plans if memory is scarce. Plans first with few
/// slots and many pending options, then with more slots and fewer pending
/// options. Spends the rest of the effort (elementary steps) on raising the
/// lower bound, with as many pending options as possible, because they raise
/// the bound more than slots do.
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
      // If no stage has pending options (see View::setPending()), compute the
      // first table even if that takes more steps than the limit allows.
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
  if (consider(saveEverything(view), 0)) {
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
