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
/// Number of windows into which ReadBound divides the reads.
static constexpr size_t kWindows = 32;

/// Returns a lower bound on the seconds that the rest of the program takes
/// after `command`: the least time of the copies to the device and the updates
/// on the host that are then necessary. The comment on boundStates() derives
/// this bound.
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
    // The join is the last command whose result all updates read. After the
    // join, or at any time if there is none, the host may already have updated
    // a group of states whose gradient is complete.
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

namespace {
/// Lower bounds on the time until a command has been executed. They follow from
/// the copies of the parameters that the commands read. A window is a range of
/// commands. When a window starts, the parameters on the device have at most as
/// many bytes as the capacity of the device. All other parameters that the
/// window reads are copied to the device during the window, which therefore
/// takes at least as long as these copies. The durations of disjoint windows
/// add up.
class ReadBound {
public:
  ReadBound(const StateProblem &problem, const std::vector<double> &after);
  /// Returns a lower bound on the time until `command` has been executed.
  double until(int32_t command) const;

private:
  double computed(int32_t command) const {
    return command < 0 ? 0 : after[command];
  }
  const std::vector<double> &after;
  /// The last commands of windows (ranges of commands), in ascending order, and
  /// lower bounds on the time until each of them has been executed.
  std::vector<int32_t> cuts;
  std::vector<double> bounds;
};
} // namespace

ReadBound::ReadBound(const StateProblem &problem,
                     const std::vector<double> &after)
    : after(after) {
  std::vector<int32_t> reads;
  for (const StateGroup &group : problem.groups)
    for (auto [first, last] : group.readers)
      reads.push_back(first);
  std::sort(reads.begin(), reads.end());
  cuts.push_back(-1);
  for (size_t i = 1; i <= kWindows && !reads.empty(); ++i) {
    int32_t cut = reads[i * reads.size() / kWindows - 1];
    if (cut > cuts.back())
      cuts.push_back(cut);
  }
  bounds.assign(cuts.size(), 0);
  double capacity = double(problem.capacity - problem.fixedBytes);
  for (size_t to = 1; to < cuts.size(); ++to)
    for (size_t from = 0; from < to; ++from) {
      double bytes = 0;
      for (const StateGroup &group : problem.groups)
        for (auto [first, last] : group.readers)
          if (first > cuts[from] && first <= cuts[to]) {
            bytes += double(group.parameterBytes);
            break;
          }
      double copied = (bytes - capacity) * problem.inSecondsPerByte;
      double window = computed(cuts[to]) - computed(cuts[from]);
      bounds[to] =
          std::max(bounds[to], bounds[from] + std::max(window, copied));
    }
}

double ReadBound::until(int32_t command) const {
  double bound = computed(command);
  for (size_t i = 0; i < cuts.size() && cuts[i] <= command; ++i)
    bound = std::max(bound, bounds[i] + computed(command) - computed(cuts[i]));
  return bound;
}

StateBound kiln::boundStates(const StateProblem &problem) {
  StateBound bound;
  // The bound must hold for all choices. An update can run on the host, where
  // it takes no time on the device, so do not count the updates.
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
  ReadBound reads(problem, after);
  if (!after.empty())
    bound.seconds = reads.until(static_cast<int32_t>(after.size()) - 1);
  // All updates read the result of the command `join`. The copies and updates
  // after this command overlap with all other commands after it, so subtract
  // the time of these other commands.
  if (problem.join >= 0)
    bound.rest = std::max(0.0, boundOfRest(problem, problem.join) -
                                   (after.back() - after[problem.join]));
  for (int32_t command : moments)
    bound.seconds = std::max(bound.seconds, reads.until(command) +
                                                boundOfRest(problem, command));
  return bound;
}
