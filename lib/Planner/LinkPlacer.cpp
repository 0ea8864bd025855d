//===- LinkPlacer.cpp - Placement of copies in one direction ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinkPlacer.h"

#include <algorithm>
#include <deque>

using namespace kiln;

double LinkPlacer::run(std::vector<int64_t> resident,
                       std::vector<Transfer> &transfers) {
  struct Pending {
    Transfer *transfer;
    double done;
  };
  std::deque<Pending> pending;
  auto count = static_cast<int32_t>(seconds.size());
  // Change of the bytes on the host at each command.
  std::vector<int64_t> freed(count + 1, 0);
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
      pending.erase(pending.begin() + static_cast<ptrdiff_t>(index));
    };
    // Remove transfers that have completed, that must be waited for, or whose
    // limit is reached.
    for (size_t i = 0; i < pending.size();) {
      const Transfer &transfer = *pending[i].transfer;
      if (transfer.limit <= c) {
        pending.erase(pending.begin() + static_cast<ptrdiff_t>(i));
        continue;
      }
      bool short_ = resident[c] - away > capacity;
      // Transfers complete in order. Later transfers whose limit is reached are
      // removed when their turn comes.
      if (!short_ && pending[i].done > now)
        break;
      if (transfer.busy < c && (short_ || pending[i].done <= now)) {
        if (pending[i].done > now) {
          waited += pending[i].done - now;
          now = pending[i].done;
        }
        leave(i);
        continue;
      }
      ++i;
    }
    now += seconds[c];
    for (; next < transfers.size() && transfers[next].ready == c; ++next) {
      linkFree = std::max(linkFree, now) + latency +
                 secondsPerByte * double(transfers[next].bytes);
      transfers[next].gone = transfers[next].limit;
      pending.push_back({&transfers[next], linkFree});
    }
  }
  return waited;
}
