//===- ChainExtremes.cpp - Schedules of least memory and of least time ----===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainExtremes.h"

#include "ChainSchedule.h"

#include <cassert>

using namespace kiln::chain;
using namespace kiln::support;
using namespace kiln;

Leanest::Leanest(const Chain &chain, const ChainOptions &options) {
  // Set all times to 0, because only memory matters. Most options of a stage
  // are then dominated by another one, and View omits them. So few remain that
  // each of them can also be combined with dropping the input of the stage (see
  // View::setPending()).
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
  Scheduler(view, floor).append(view.whole(), least, ops);
  bytes = least + view.value[0];
}

ChainFloor Leanest::floor(const Chain &chain) const {
  const ChainOp &op = ops[simulate(chain, ops).peakOp];
  return {bytes, op.stage, op.kind == ChainOpKind::Backward};
}

std::vector<ChainOp> kiln::chain::saveEverything(const View &view) {
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
  return ops;
}

bool kiln::chain::considerOps(const Chain &chain, int64_t budget,
                              std::vector<ChainOp> ops, int32_t slots,
                              ChainPlan &best) {
  ChainCost cost = simulate(chain, ops);
  assert(cost.ok() && "the planner made an invalid schedule");
  if (cost.peak > budget || (!best.ops.empty() && cost.time >= best.time))
    return false;
  best.ops = std::move(ops);
  best.time = cost.time;
  best.peak = cost.peak;
  best.hostPeak = cost.hostPeak;
  best.slots = slots;
  return true;
}
