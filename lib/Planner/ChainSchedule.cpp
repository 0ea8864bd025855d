//===- ChainSchedule.cpp - Reconstruction of a schedule from a table ------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainSchedule.h"

#include <cassert>

using namespace kiln::chain;
using namespace kiln::support;
using namespace kiln;

static constexpr double infinity = std::numeric_limits<double>::infinity();

Scheduler::Scheduler(const View &view, const Table &table, const Floor &floor)
    : view(view), table(&table), floor(floor),
      floorTimes(view.numSegments(), infinity) {
  view.forEachSegment([&](const Segment &segment) {
    floorTimes[view.number(segment)] =
        segment.first == segment.end
            ? 0
            : choose(segment, floor.bytes(segment)).second;
  });
}

double Scheduler::time(const Segment &segment, int64_t bytes) const {
  if (bytes < floor.bytes(segment))
    return infinity;
  if (!table)
    return 0;
  return std::min(table->timeWithin(segment, bytes),
                  floorTimes[view.number(segment)]);
}

std::pair<Choice, double> Scheduler::choose(const Segment &segment,
                                            int64_t bytes) const {
  std::pair<Choice, double> best{{}, infinity};
  view.forEachChoice(segment, [&](const Choice &choice) {
    if (bytes < choice.need)
      return;
    double total = choice.time;
    total += time(choice.right, bytes - choice.stored);
    if (choice.hasLeft)
      total += time(choice.left, bytes);
    if (total < best.second)
      best = {choice, total};
  });
  return best;
}

namespace {
/// Remaining work: a segment, or only the backward pass of its first stage.
struct Task {
  Segment segment;
  int64_t bytes = 0;
  bool backward = false;
};
} // namespace

void Scheduler::append(const Segment &whole, int64_t bytes,
                       std::vector<ChainOp> &ops) const {
  std::vector<Task> tasks{{whole, bytes, false}};
  while (!tasks.empty()) {
    Task task = tasks.back();
    tasks.pop_back();
    int32_t first = task.segment.first;
    if (first == task.segment.end || task.backward) {
      if (task.segment.tail > 0 || task.backward)
        ops.push_back({ChainOpKind::Backward, first, -1});
      continue;
    }
    auto [choice, total] = choose(task.segment, task.bytes);
    assert(total < infinity && "only feasible segments are scheduled");
    for (int32_t j = first; j < choice.split; ++j)
      ops.push_back({j == first ? ChainOpKind::ForwardCheckpoint
                                : ChainOpKind::ForwardDrop,
                     j, -1});
    if (choice.saving)
      ops.push_back({choice.hasLeft ? ChainOpKind::ForwardSaveDrop
                                    : ChainOpKind::ForwardSave,
                     choice.split, choice.saving->index});
    if (choice.hasLeft)
      tasks.push_back({choice.left, task.bytes, false});
    else
      tasks.push_back({task.segment, 0, /*backward=*/true});
    tasks.push_back({choice.right, task.bytes - choice.stored, false});
  }
}
