//===- Copier.cpp - Copies on the calling thread --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Copier.h"

#include <algorithm>
#include <cstring>

namespace kiln::runtime {

void SerialCopier::start(const CopyJob &job) {
  count(job);
  if (when_ == When::Start)
    std::memcpy(job.to, job.from, std::size_t(job.bytes));
  else
    pending_.push_back(job);
}

void SerialCopier::wait(int64_t token) {
  auto awaited =
      std::find_if(pending_.begin(), pending_.end(),
                   [&](const CopyJob &job) { return job.token == token; });
  if (awaited == pending_.end())
    return;
  // Execute the awaited copy and all earlier copies of its direction.
  CopyDirection direction = awaited->direction;
  auto end = awaited + 1;
  for (auto job = pending_.begin(); job != end; ++job)
    if (job->direction == direction)
      std::memcpy(job->to, job->from, std::size_t(job->bytes));
  pending_.erase(std::remove_if(pending_.begin(), end,
                                [&](const CopyJob &job) {
                                  return job.direction == direction;
                                }),
                 end);
}

} // namespace kiln::runtime
