//===- PeerClock.h - Time for which peers are silent ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_PEERCLOCK_H
#define KILN_LIB_RUNTIME_CUDA_PEERCLOCK_H

#include "kiln/Runtime/Comm/World.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace kiln::runtime::cuda {

/// Measures for how long a rank has waited for others. Time in which this
/// process was stopped does not count.
class PeerClock {
public:
  using Clock = std::chrono::steady_clock;
  /// Of the time between two calls of advance(), at most this much counts. If
  /// more time passes, this process was probably stopped.
  static constexpr std::chrono::seconds longestPoll{2};

  void advance() {
    Clock::time_point now = Clock::now();
    waited_ += std::min<Clock::duration>(now - last_, longestPoll);
    last_ = now;
  }
  double seconds() const {
    return std::chrono::duration<double>(waited_).count();
  }

private:
  Clock::time_point last_ = Clock::now();
  Clock::duration waited_{};
};

/// Returns the error message for the case that another rank does not take part
/// in `what` before the time-out.
inline std::string silenceText(const std::string &what, const World &world) {
  return what + " of step " + std::to_string(world.step()) +
         " has not ended for " + std::to_string(world.peerTimeout()) +
         " s (--peer-timeout): another rank has ended or hangs";
}

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_PEERCLOCK_H
