//===- TransferStress.cpp - Transfers at random points --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TransferStress.h"

#include "kiln/Support/Rng.h"

#include <algorithm>
#include <cstring>

using namespace kiln::support;

namespace kiln::runtime {

StressTransfers::StressTransfers(uint64_t seed, int64_t tokens, World *world)
    : world_(world), state_(seed) {
  for (Queue &queue : queues_)
    queue.reserve(std::size_t(tokens));
}

uint64_t StressTransfers::random() {
  uint64_t value = splitmix64(state_);
  // With an increment of 1, similar seeds would produce the same sequence of
  // numbers, shifted by a few positions.
  state_ += 0x9E3779B97F4A7C15;
  return value;
}

void StressTransfers::advance(Queue &queue, int64_t bytes) {
  Pending &first = queue.front();
  if (first.job.isCollective()) {
    executeNow(first.job, world_);
    queue.erase(queue.begin());
    return;
  }
  bytes = std::min(bytes, first.job.bytes - first.done);
  std::memcpy(first.job.to + first.done, first.job.from + first.done,
              std::size_t(bytes));
  first.done += bytes;
  if (first.done == first.job.bytes)
    queue.erase(queue.begin());
}

void StressTransfers::finishFirst(Queue &queue) {
  advance(queue, queue.front().job.bytes);
}

void StressTransfers::start(const TransferJob &job) {
  count(job);
  Queue &queue = queues_[std::size_t(job.kind)];
  uint64_t choice = random() % 4;
  Habit habit = choice == 0   ? Habit::AtOnce
                : choice == 1 ? Habit::Late
                              : Habit::InPieces;
  queue.push_back({job, 0, habit});
  // Transfers of one kind complete in the order of their starts. Therefore
  // complete all earlier transfers of this kind too.
  if (habit == Habit::AtOnce)
    while (!queue.empty())
      finishFirst(queue);
}

void StressTransfers::wait(int64_t token) {
  for (Queue &queue : queues_) {
    auto awaited =
        std::find_if(queue.begin(), queue.end(), [&](const Pending &entry) {
          return entry.job.token == token;
        });
    for (auto count = awaited == queue.end() ? 0 : awaited - queue.begin() + 1;
         count > 0; --count)
      finishFirst(queue);
  }
}

void StressTransfers::between() {
  for (Queue &queue : queues_) {
    if (queue.empty() || queue.front().habit == Habit::Late)
      continue;
    uint64_t choice = random();
    if (choice % 2)
      continue;
    // Prefer small chunks, so that many commands are executed while a copy is
    // in flight.
    int64_t most = queue.front().job.bytes >> (choice / 2 % 4);
    advance(queue, 1 + int64_t(random() % uint64_t(most + 1)));
  }
}

} // namespace kiln::runtime
