//===- ChainSchedule.cpp - From a table to a schedule -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainSchedule.h"

#include <cassert>

using namespace kiln;
using namespace kiln::chain;

static constexpr double infinity = std::numeric_limits<double>::infinity();

Scheduler::Scheduler(const View &view, const Table &table, const Floor &floor)
    : view(view), table(table), floor(floor),
      floorTimes(view.numSegments(), infinity) {
  view.forEachSegment([&](int32_t i, int32_t l) {
    floorTimes[view.segment(i, l)] = choose(i, l, floor.bytesOf(i, l)).second;
  });
}

double Scheduler::time(int32_t i, int32_t l, int64_t bytes) const {
  if (bytes < floor.bytesOf(i, l))
    return infinity;
  return std::min(table.timeWithin(i, l, bytes),
                  floorTimes[view.segment(i, l)]);
}

std::pair<Choice, double> Scheduler::choose(int32_t i, int32_t l,
                                            int64_t bytes) const {
  std::pair<Choice, double> best{{}, infinity};
  view.forEachChoice(i, l, [&](const Choice &choice) {
    if (bytes < choice.need)
      return;
    double total = choice.time;
    if (choice.stop <= l)
      total += time(choice.stop, l, bytes - choice.stored);
    if (!choice.saving)
      total += time(i, choice.stop - 1, bytes);
    if (total < best.second)
      best = {choice, total};
  });
  return best;
}

namespace {
/// What is still to be done: a segment, or the backward pass of one stage.
struct Task {
  int32_t first = 0;
  int32_t last = 0;
  int64_t bytes = 0;
  bool backward = false;
};
} // namespace

void Scheduler::append(int32_t first, int32_t last, int64_t bytes,
                       std::vector<ChainOp> &ops) const {
  std::vector<Task> tasks{{first, last, bytes, false}};
  while (!tasks.empty()) {
    Task task = tasks.back();
    tasks.pop_back();
    int32_t i = task.first, l = task.last;
    if (task.backward) {
      ops.push_back({ChainOpKind::Backward, i, -1});
      continue;
    }
    auto [choice, total] = choose(i, l, task.bytes);
    assert(total < infinity && "only feasible segments are scheduled");
    if (choice.saving) {
      ops.push_back({ChainOpKind::ForwardSave, i, choice.saving->index});
      tasks.push_back({i, i, 0, /*backward=*/true});
    } else {
      ops.push_back({ChainOpKind::ForwardCheckpoint, i, -1});
      for (int32_t j = i + 1; j < choice.stop; ++j)
        ops.push_back({ChainOpKind::ForwardDrop, j, -1});
      tasks.push_back({i, choice.stop - 1, task.bytes, false});
    }
    if (choice.stop <= l)
      tasks.push_back({choice.stop, l, task.bytes - choice.stored, false});
  }
}
