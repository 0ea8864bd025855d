//===- StateBound.cpp - Lower bound with states on the host ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateRelaxation.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace kiln;

/// Number of steps of the search for a lower bound.
static constexpr int kBisections = 40;

/// Returns a lower bound on the seconds that the program takes after the
/// command `join`: the least time of the copies to the device and the updates
/// on the host that are then necessary. The comment on StateBound::rest derives
/// this bound.
static double boundOfRest(const StateProblem &problem) {
  struct Part {
    double bytes, hostSeconds;
  };
  std::vector<Part> parts;
  double excess = double(problem.fixedBytes - problem.capacity);
  double hostSeconds = 0;
  for (const StateGroup &group : problem.groups) {
    if (group.update <= problem.join)
      continue;
    double bytes = double(group.momentBytes);
    if (group.updateReads)
      bytes += double(group.parameterBytes);
    if (group.gradient <= problem.join)
      bytes += double(group.gradientBytes);
    excess += bytes;
    parts.push_back({bytes, group.hostSeconds});
    hostSeconds += group.hostSeconds;
  }
  std::sort(parts.begin(), parts.end(), [](const Part &a, const Part &b) {
    return a.bytes * b.hostSeconds > b.bytes * a.hostSeconds;
  });
  auto suffices = [&](double seconds) {
    double left = excess - seconds / problem.inSecondsPerByte, host = seconds;
    for (const Part &part : parts) {
      if (left <= 0 || host <= 0)
        break;
      double share =
          part.hostSeconds > 0 ? std::min(1.0, host / part.hostSeconds) : 1.0;
      left -= share * part.bytes;
      host -= share * part.hostSeconds;
    }
    return left <= 0;
  };
  double low = 0,
         high = std::max(hostSeconds, excess * problem.inSecondsPerByte);
  for (int step = 0; step < kBisections && high > 0; ++step) {
    double middle = (low + high) / 2;
    (suffices(middle) ? high : low) = middle;
  }
  return low;
}

StateBound kiln::boundStates(const StateProblem &problem) {
  StateBound bound;
  bound.seconds = StateRelaxation(problem).bound();
  std::vector<double> seconds = problem.seconds;
  // Every update may run on the host, where it takes no time on the device.
  for (const StateGroup &group : problem.groups)
    if (group.update >= 0)
      bound.updates += std::exchange(seconds[group.update], 0.0);
  // The copies and updates after the command `join` overlap with all other
  // commands after it, so subtract the time of these other commands.
  if (problem.join >= 0)
    bound.rest =
        std::max(0.0, boundOfRest(problem) -
                          std::accumulate(seconds.begin() + problem.join + 1,
                                          seconds.end(), 0.0));
  return bound;
}
