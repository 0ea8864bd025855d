//===- SimulatedNetwork.cpp - Messages at a limited rate ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimulatedNetwork.h"

#include <algorithm>
#include <ctime>

namespace kiln::runtime {

static int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

Status SimulatedNetwork::beginSend(int peer, const void *data, int64_t bytes,
                                   int tag, MessageRequest &request) {
  auto free = std::find_if(held_.begin(), held_.end(),
                           [](const Held &held) { return !held.data; });
  if (free == held_.end())
    return Status::error("more than " + std::to_string(maxSends) +
                         " messages are being sent over a simulated network");
  // The limit, three years, avoids an overflow for tiny rates.
  constexpr double longest = 1e17;
  freeAt_ = std::max(freeAt_, now()) +
            int64_t(std::min(double(bytes) * nanosecondsPerByte_, longest));
  *free = {data, bytes, peer, tag, freeAt_};
  request.held = int(free - held_.begin());
  return Status();
}

Status SimulatedNetwork::beginReceive(int peer, void *data, int64_t bytes,
                                      int tag, MessageRequest &request) {
  request.held = -1;
  return delivery_->receive(peer, data, bytes, tag, request);
}

Result<bool> SimulatedNetwork::test(MessageRequest &request) {
  if (request.held >= 0) {
    Held &held = held_[std::size_t(request.held)];
    if (now() < held.due)
      return false;
    request.held = -1;
    // Any TrafficKind would do: `delivery_` only counts bytes per kind, and its
    // counts are not used.
    Status status = delivery_->send(held.peer, held.data, held.bytes, held.tag,
                                    TrafficKind::Sum, request);
    held.data = nullptr;
    if (!status.ok())
      return status;
  }
  return delivery_->test(request);
}

} // namespace kiln::runtime
