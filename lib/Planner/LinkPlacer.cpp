//===- LinkPlacer.cpp - Placement of copies in one direction ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinkPlacer.h"

#include <algorithm>

using namespace kiln;

/// Removes a copy in progress. Shifts the copies before it, which are few.
void LinkPlacer::remove(size_t index) {
  for (; index > first; --index)
    pending[index] = pending[index - 1];
  ++first;
}

double LinkPlacer::run(const std::vector<double> &seconds,
                       const LinkLimits &link,
                       const std::vector<int64_t> &resident,
                       std::vector<Transfer> &transfers) {
  auto count = static_cast<int32_t>(seconds.size());
  pending.clear();
  pending.reserve(transfers.size());
  first = 0;
  freed.assign(size_t(count) + 1, 0);
  double now = 0, linkFree = 0, waited = 0;
  int64_t away = 0;
  size_t next = 0;
  for (int32_t c = 0; c < count; ++c) {
    away += freed[c];
    auto leave = [&](size_t index) {
      Transfer &transfer = *pending[index].transfer;
      transfer.gone = c;
      away += transfer.bytes;
      freed[transfer.limit] -= transfer.bytes;
      remove(index);
    };
    // Remove transfers that have completed, that must be waited for, or whose
    // value is needed again (at the command `limit`).
    for (size_t i = first; i < pending.size();) {
      const Transfer &transfer = *pending[i].transfer;
      if (transfer.limit <= c) {
        remove(i++);
        continue;
      }
      bool short_ = resident[c] - away > link.capacity;
      // Transfers complete in order, so if this one is in progress, so are all
      // later ones. If a later one has reached its limit, it is removed in a
      // later iteration over the commands.
      if (!short_ && pending[i].done > now)
        break;
      if (transfer.busy < c && (short_ || pending[i].done <= now)) {
        if (pending[i].done > now) {
          waited += pending[i].done - now;
          now = pending[i].done;
        }
        leave(i++);
        continue;
      }
      ++i;
    }
    now += seconds[c];
    for (; next < transfers.size() && transfers[next].ready == c; ++next) {
      linkFree = std::max(linkFree, now) + link.latency +
                 link.secondsPerByte * double(transfers[next].bytes);
      transfers[next].gone = transfers[next].limit;
      pending.push_back({&transfers[next], linkFree});
    }
  }
  return waited;
}
