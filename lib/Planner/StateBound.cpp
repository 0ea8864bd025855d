//===- StateBound.cpp - Lower bound with states on the host ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/StatePlanner.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace kiln;

/// Number of steps of the search for a lower bound.
static constexpr int kBisections = 40;

/// Returns the smallest T of boundStates() for the moment after `command`.
static double boundOfRest(const StateProblem &problem, int32_t command) {
  struct Part {
    double bytes, hostSeconds;
  };
  std::vector<Part> parts;
  double excess = double(problem.fixedBytes - problem.capacity);
  double hostSeconds = 0;
  for (const StateGroup &group : problem.groups) {
    if (group.update <= command)
      continue;
    double bytes = double(group.parameterBytes + group.momentBytes);
    if (group.gradient <= command)
      bytes += double(group.gradientBytes);
    excess += bytes;
    // Without a join, the host may have updated a group whose gradient is
    // complete.
    bool mayBeDone = group.gradient <= command && command > problem.join;
    parts.push_back({bytes, mayBeDone ? 0 : group.hostSeconds});
    hostSeconds += parts.back().hostSeconds;
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
  // An update on the host takes no time on the device.
  std::vector<double> seconds = problem.seconds;
  std::vector<int32_t> moments;
  if (problem.join >= 0)
    moments.push_back(problem.join);
  for (const StateGroup &group : problem.groups)
    if (group.update >= 0) {
      bound.updates += std::exchange(seconds[group.update], 0.0);
      moments.push_back(group.gradient);
    }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  std::vector<double> after(seconds.size());
  std::partial_sum(seconds.begin(), seconds.end(), after.begin());
  if (!after.empty())
    bound.seconds = after.back();
  // Other commands after the join overlap with copies and updates.
  if (problem.join >= 0)
    bound.rest = std::max(0.0, boundOfRest(problem, problem.join) -
                                   (after.back() - after[problem.join]));
  for (int32_t command : moments)
    bound.seconds =
        std::max(bound.seconds, after[command] + boundOfRest(problem, command));
  return bound;
}
