//===- Transfers.cpp - Transfers on the calling thread --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Transfers.h"

#include <algorithm>
#include <cstring>

namespace kiln::runtime {

void executeNow(const TransferJob &job, World *world) {
  if (!job.isCollective())
    std::memcpy(job.to, job.from, std::size_t(job.bytes));
  else if (world)
    world->wait(world->begin(job.ofRanks()));
  else
    carryOutAlone(job.ofRanks());
}

void SerialTransfers::start(const TransferJob &job) {
  count(job);
  if (when_ == When::Start)
    executeNow(job, world_);
  else
    pending_.push_back(job);
}

void SerialTransfers::wait(int64_t token) {
  auto awaited =
      std::find_if(pending_.begin(), pending_.end(),
                   [&](const TransferJob &job) { return job.token == token; });
  if (awaited == pending_.end())
    return;
  // Execute the awaited transfer and all earlier transfers of its kind.
  TransferKind kind = awaited->kind;
  auto end = awaited + 1;
  for (auto job = pending_.begin(); job != end; ++job)
    if (job->kind == kind)
      executeNow(*job, world_);
  pending_.erase(
      std::remove_if(pending_.begin(), end,
                     [&](const TransferJob &job) { return job.kind == kind; }),
      end);
}

} // namespace kiln::runtime
