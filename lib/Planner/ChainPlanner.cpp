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

#include "ChainMoves.h"
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

/// What rounding to this slot does to all sizes together, in bytes.
static int64_t roundingError(const View &view, int64_t slot,
                             Grid::Rounding rounding) {
  auto error = [&](int64_t bytes) {
    int64_t below = bytes % slot, above = below == 0 ? 0 : slot - below;
    return rounding == Grid::Rounding::Up     ? above
           : rounding == Grid::Rounding::Down ? below
                                              : std::min(above, below);
  };
  int64_t sum = 0;
  for (int32_t i = 0; i < view.size(); ++i) {
    sum += error(view.value[i]);
    for (const Option &option : view.options[i])
      sum += error(option.saved);
  }
  return sum;
}

/// A grid of up to that many slots: exact if it can be, else one that suits the
/// sizes well.
static Grid makeGrid(const View &view, int64_t bytes, int64_t slots,
                     Grid::Rounding rounding) {
  Grid grid;
  grid.rounding = rounding;
  grid.slot = exactSlot(view);
  if (bytes / grid.slot > slots) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t part = 0; part < 64; ++part) {
      int64_t count = slots - slots * part / 256;
      int64_t slot = (bytes + count - 1) / count;
      int64_t error = roundingError(view, slot, rounding);
      if (error < least) {
        least = error;
        grid.slot = slot;
      }
    }
  }
  grid.slots = static_cast<int32_t>(bytes / grid.slot);
  grid.rest = bytes % grid.slot;
  return grid;
}

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
  View view(timeless, options, std::numeric_limits<size_t>::max(),
            /*relaxed=*/false);
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
  void refine();
  uint64_t refine(int64_t slots);
  void consider(std::vector<ChainOp> ops, int32_t slots);

  const Chain &chain;
  const ChainOptions &options;
  int64_t budget, bytes;
  View view, relaxed;
  Floor floor;
  ChainPlan plan;
};

} // namespace

/// How many pending options per stage leave three refinements affordable.
static size_t affordablePending(const Chain &chain,
                                const ChainOptions &options) {
  size_t most = 1;
  for (const Stage &stage : chain.stages)
    most = std::max(most, stage.options.size());
  for (size_t pending = most; pending > 0; pending /= 2) {
    View view(chain, options, pending, /*relaxed=*/false);
    if (3 * Table::effortPerSlot(view) * options.minSlots * 7 <=
        options.tableEffort)
      return pending;
  }
  return 0;
}

Solver::Solver(const Chain &chain, int64_t budget, const ChainOptions &options)
    : chain(chain), options(options), budget(budget),
      bytes(budget - chain.value(0)),
      view(chain, options, affordablePending(chain, options), false),
      relaxed(chain, options,
              std::max<size_t>(affordablePending(chain, options), 1), true),
      floor(view) {}

/// Keeps a schedule if it is the fastest so far.
void Solver::consider(std::vector<ChainOp> ops, int32_t slots) {
  ChainCost cost = simulate(chain, ops);
  assert(cost.ok() && cost.peak <= budget && "the planner is wrong");
  if (!plan.ops.empty() && cost.time >= plan.time)
    return;
  plan.ops = std::move(ops);
  plan.time = cost.time;
  plan.peak = cost.peak;
  plan.hostPeak = cost.hostPeak;
  plan.slots = slots;
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

/// Plans and bounds with that many slots; the steps it took.
uint64_t Solver::refine(int64_t slots) {
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
  Grid grid = makeGrid(relaxed, bytes, slots, Grid::Rounding::Down);
  Table table(relaxed, grid);
  double bound = table.time(relaxed.whole(), grid.slots) * (1 - 1e-10);
  plan.persistentBound = std::max(plan.persistentBound, bound);
  return steps + Table::effortPerSlot(relaxed) * (grid.slots + 1);
}

/// Tables over ever more slots.
void Solver::refine() {
  uint64_t steps = 0, last = 0;
  for (int64_t slots = options.minSlots; slots <= options.maxSlots;
       slots *= 2) {
    if (last > 0 && steps + 2 * last > options.tableEffort)
      break;
    last = refine(slots);
    steps += last;
    if (plan.persistentBound >= plan.time * (1 - options.gap))
      break;
  }
}

std::optional<ChainPlan> Solver::solve() {
  bool inTables = bytes >= floor.bytes(view.whole());
  if (!inTables) {
    // Some option that is not pending in the tables may need less.
    Leanest leanest(chain, options);
    if (budget < leanest.bytes)
      return std::nullopt;
    consider(std::move(leanest.ops), 0);
  }
  plan.bound = plan.persistentBound = relaxedTimeBound(chain, budget, options);
  if (saveEverything()) {
    plan.persistentTime = plan.time;
    return plan;
  }
  if (inTables)
    refine();
  plan.persistentTime = plan.time;
  if (!options.persistentOnly && plan.time > plan.bound) {
    Moves moves(chain, view, budget, options.moveEffort);
    consider(moves.improve(plan.ops), plan.slots);
  }
  return plan;
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
