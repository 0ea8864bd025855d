//===- ChainLadder.cpp - Plans for many budgets of one chain ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table of the dynamic program for a budget also contains the optima of all
// smaller budgets. But it counts memory in slots, and this unit is too coarse
// for the smallest budgets. ChainLadder, which plans for many budgets,
// therefore has a few tables. Each table has smaller slots than the previous
// table, and covers only the smaller budgets of the previous table's range.
//
// The stages before the next stored value form a left segment. In good
// schedules, left segments are long only if the budget is small. Each table
// therefore limits the length of left segments, and tables for smaller budgets
// have a higher limit. The effort that this limit saves is spent on more slots
// and on pending options, with which a stage saves values and drops its input
// (see ChainView.h).
//
// In the tables, sizes are rounded to the nearest number of slots. Schedules
// are reconstructed with exact sizes in bytes.
//
//===----------------------------------------------------------------------===//

#include "ChainDual.h"
#include "ChainExtremes.h"
#include "ChainMoves.h"
#include "ChainSchedule.h"

#include <list>

using namespace kiln;
using namespace kiln::chain;

/// For each table of the dynamic program, the maximum number of consecutive
/// stages without a stored value, which is the maximum length of left segments
/// (see ChainView.h).
static constexpr int32_t spans[] = {12, 24, 64};
/// Each table covers a range of budgets that starts at the smallest feasible
/// budget. The range of the next table is shorter by this factor.
static constexpr int64_t rangeShrinks = 4;
/// The number of pending options per stage (options with which the stage saves
/// and drops its input; see View::setPending()) is increased as long as the
/// table can have at least this many slots.
static constexpr uint64_t manySlots = 2048;
/// Minimum number of slots (units of memory) of a table, even if the effort
/// then exceeds its limit.
static constexpr uint64_t fewestSlots = 64;

namespace {

/// Computes schedules for budgets of up to `bytes`. Budgets exclude a_0, the
/// input of the chain.
struct Level {
  Level(View given, int64_t bytes, int64_t slots)
      : view(std::move(given)), bytes(bytes),
        grid(makeGrid(view, bytes, slots, Grid::Rounding::Nearest)),
        floor(view), table(view, grid), scheduler(view, table, floor) {}

  View view;
  int64_t bytes;
  Grid grid;
  Floor floor;
  Table table;
  Scheduler scheduler;
};

} // namespace

struct ChainLadder::State {
  State(const Chain &chain, int64_t largest, const ChainOptions &options);

  void addLevel(int64_t low, int64_t bytes, int32_t span, uint64_t effort);
  std::optional<ChainPlan> plan(int64_t budget);

  Chain chain;
  ChainOptions options;
  View view;
  Leanest leanest;
  std::list<Level> levels;
  /// Plans returned so far. A plan is valid for every budget of at least its
  /// peak.
  std::vector<ChainPlan> earlier;
};

ChainLadder::State::State(const Chain &given, int64_t largest,
                          const ChainOptions &options)
    : chain(given), options(options), view(chain, options),
      leanest(chain, options) {
  int64_t low = leanest.bytes - view.value[0];
  int64_t range = largest - leanest.bytes;
  for (int32_t span : spans) {
    if (range < 0)
      return;
    addLevel(low, low + range, span, options.ladderEffort / std::size(spans));
    range /= rangeShrinks;
  }
}

void ChainLadder::State::addLevel(int64_t low, int64_t bytes, int32_t span,
                                  uint64_t effort) {
  View with = view;
  with.setSpan(span);
  Dual dual(view, low + (bytes - low) / 2);
  dual.maximize();
  std::vector<double> prices = dual.savedPrices();
  uint64_t most =
      std::min<uint64_t>(options.maxSlots, bytes / exactSlot(view) + 1);
  uint64_t affordable = effort / Table::effortPerSlot(with);
  for (size_t pending = 1; pending <= view.largestMenu(); ++pending) {
    View more = with;
    more.setPending(pending, prices);
    uint64_t slots = effort / Table::effortPerSlot(more);
    if (slots < std::min(most, manySlots))
      break;
    with = std::move(more);
    affordable = slots;
  }
  levels.emplace_back(std::move(with), bytes,
                      std::max(fewestSlots, std::min(most, affordable)));
}

std::optional<ChainPlan> ChainLadder::State::plan(int64_t budget) {
  int64_t bytes = budget - view.value[0];
  ChainPlan best;
  best.bound = best.persistentBound = Dual(view, bytes).maximize();
  if (considerOps(chain, budget, saveEverything(view), 0, best)) {
    best.persistentTime = best.time;
    return best;
  }
  if (budget < leanest.bytes)
    return std::nullopt;
  considerOps(chain, budget, leanest.ops, 0, best);
  for (const Level &level : levels) {
    Segment whole = level.view.whole();
    if (bytes > level.bytes || bytes < level.floor.bytes(whole))
      continue;
    std::vector<ChainOp> ops;
    level.scheduler.append(whole, bytes, ops);
    considerOps(chain, budget, std::move(ops), level.grid.slots, best);
  }
  best.persistentTime = best.time;
  for (const ChainPlan &plan : earlier)
    if (plan.peak <= budget && plan.time < best.time)
      considerOps(chain, budget, plan.ops, plan.slots, best);
  if (!options.persistentOnly && best.time > best.bound) {
    Moves moves(chain, view, budget, options.ladderMoveEffort);
    considerOps(chain, budget, moves.improve(best.ops), best.slots, best);
  }
  earlier.push_back(best);
  return best;
}

ChainLadder::ChainLadder(const Chain &chain, int64_t largest,
                         const ChainOptions &options)
    : state(std::make_unique<State>(chain, largest, options)) {}

ChainLadder::~ChainLadder() = default;

ChainFloor ChainLadder::floor() const {
  return state->leanest.floor(state->chain);
}

std::optional<ChainPlan> ChainLadder::plan(int64_t budget) {
  return state->plan(budget);
}
