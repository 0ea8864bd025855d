//===- ChainOffload.cpp - Lower bound with host memory ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two relaxations bound the time of schedules that may store Y bytes on the
// host. Let B be the budget, and o(Y) and i(Y) the times to copy Y bytes to the
// host and back.
//
// The first one considers the whole step. Let Y be the peak of the bytes on the
// host. A schedule whose peak on the device is at most B takes at least r(B+Y),
// the bound for B+Y bytes without a host, and at least o(Y) + i(Y), the time of
// the copies.
//
// The second relaxation considers the turn, that is, the end of the forward
// pass. Let Y be the bytes on the host at the turn. Copying them takes o(Y)
// seconds before the turn and i(Y) seconds after it. Let c(M) be a lower bound
// on the seconds of computation of all schedules that have at most M bytes at
// the turn. If f of these seconds precede the turn, the turn is at least
// max(f, o(Y)) seconds after the start, and the end of the step is at least
// max(c(B+Y) - f, i(Y)) seconds after the turn.
//
// Computation that the chain does not count is added to r(M) and to c(M), and
// may precede or follow the turn.
//
// The bound of each relaxation is its minimum over Y, the bytes on the host.
// The lower bound c(M) on the computation is the optimum of a linear
// relaxation, in which each stage uses a convex combination of its options.
// Therefore c is convex.
//
//===----------------------------------------------------------------------===//

#include "ChainExtremes.h"

#include <algorithm>
#include <utility>
#include <vector>

using namespace kiln::chain;
using namespace kiln;

/// Number of steps of the bisection and of the ternary search for the minimum.
static constexpr int kBisections = 16, kSections = 48;
static constexpr double infinity = std::numeric_limits<double>::infinity();

namespace {

/// The bytes that a stage stores at the turn (the end of the forward pass), and
/// the seconds of computation of the stage if it stores them.
struct Point {
  double bytes, seconds;
};

/// Bytes that a stage can release before the turn (the end of the forward
/// pass), and the seconds of computation that this adds.
struct Release {
  double bytes, seconds;
};

class Turn {
public:
  Turn(const Chain &chain, double otherSeconds);
  /// Returns c(bytes), the lower bound on the seconds of computation if at most
  /// `bytes` bytes are stored at the turn (the end of the forward pass).
  double computation(double bytes) const;
  /// Returns the least time of a schedule that computes for c(bytes) seconds,
  /// copies to the host for `out` seconds before the turn, and copies back for
  /// `in` seconds after it. Minimizes over the seconds of computation before
  /// the turn.
  double seconds(double bytes, double out, double in) const;
  double mostBytes() const { return most; }

private:
  void addReleases(const Stage &stage);

  /// The seconds of computation, other seconds included, and the bytes at the
  /// end of the forward pass, if every stage uses its fastest option.
  double fastest = 0;
  double most = 0;
  double leastForward = 0, mostForward = 0;
  /// The possible releases of all stages, sorted by the time that they add per
  /// released byte; the cheapest comes first.
  std::vector<Release> releases;
};

} // namespace

Turn::Turn(const Chain &chain, double otherSeconds) {
  for (const Stage &stage : chain.stages)
    addReleases(stage);
  fastest += otherSeconds;
  mostForward += otherSeconds;
  const Stage &last = chain.stages.back();
  int64_t workspace = last.options.front().backwardWorkspace;
  for (const StageOption &option : last.options)
    workspace = std::min(workspace, option.backwardWorkspace);
  most +=
      static_cast<double>(chain.value(0) + chain.gradient(chain.size() - 1) +
                          chain.gradient(chain.size()) + workspace);
  std::sort(releases.begin(), releases.end(),
            [](const Release &a, const Release &b) {
              return a.seconds * b.bytes < b.seconds * a.bytes;
            });
}

/// Each option of a stage is a point (bytes, seconds). Adds each edge of the
/// lower convex hull of these points to `releases`: moving along the edge
/// stores fewer bytes and takes more seconds.
void Turn::addReleases(const Stage &stage) {
  double leastRun = stage.fastForward, mostRun = stage.fastForward;
  Point dropped = {0, infinity};
  std::vector<Point> points;
  for (const StageOption &option : stage.options) {
    leastRun = std::min(leastRun, option.forward);
    mostRun = std::max(mostRun, option.forward);
    double seconds = option.forward + option.backward;
    dropped.seconds = std::min(dropped.seconds, seconds);
    points.push_back({static_cast<double>(option.saved), seconds});
  }
  dropped.seconds += leastRun;
  points.push_back(dropped);
  leastForward += leastRun;
  mostForward += mostRun;
  // Go along the lower convex hull, from the fastest point towards fewer bytes.
  Point at = *std::min_element(
      points.begin(), points.end(), [](const Point &a, const Point &b) {
        return std::pair(a.seconds, a.bytes) < std::pair(b.seconds, b.bytes);
      });
  fastest += at.seconds;
  most += at.bytes;
  while (true) {
    const Point *next = nullptr;
    auto rate = [&](const Point &point) {
      return (point.seconds - at.seconds) / (at.bytes - point.bytes);
    };
    for (const Point &point : points)
      if (point.bytes < at.bytes &&
          (!next || rate(point) < rate(*next) ||
           (rate(point) == rate(*next) && point.bytes < next->bytes)))
        next = &point;
    if (!next)
      return;
    releases.push_back({at.bytes - next->bytes, next->seconds - at.seconds});
    at = *next;
  }
}

double Turn::computation(double bytes) const {
  double excess = most - bytes, seconds = fastest;
  for (const Release &release : releases) {
    if (excess <= 0)
      break;
    double share = std::min(1.0, excess / release.bytes);
    seconds += share * release.seconds;
    excess -= release.bytes;
  }
  return excess > 0 ? infinity : seconds;
}

double Turn::seconds(double bytes, double out, double in) const {
  double all = computation(bytes), least = infinity;
  // The time is piecewise linear in f, the computation before the turn, so its
  // minimum is at one of these values.
  for (double forward : {leastForward, mostForward, out, all - in}) {
    double f = std::clamp(forward, leastForward, mostForward);
    least = std::min(least, std::max(f, out) + std::max(all - f, in));
  }
  return least;
}

double kiln::offloadTimeBound(const Chain &chain, int64_t budget,
                              double outSecondsPerByte, double inSecondsPerByte,
                              double otherSeconds,
                              const ChainOptions &options) {
  // Let Y be the number of bytes on the host. The lower bound on the time of
  // computation decreases with Y, and the time of the copies increases with Y.
  // The maximum of the two is least where they are equal.
  auto repeating = [&](double bytes) {
    return otherSeconds + relaxedTimeBound(chain,
                                           budget + static_cast<int64_t>(bytes),
                                           options);
  };
  auto copying = [&](double bytes) {
    return bytes * (outSecondsPerByte + inSecondsPerByte);
  };
  int64_t peak = simulate(chain, saveEverything(View(chain, options))).peak;
  double low = 0, high = std::max(0.0, static_cast<double>(peak - budget));
  for (int step = 0; step < kBisections; ++step) {
    double middle = (low + high) / 2;
    (repeating(middle) >= copying(middle) ? low : high) = middle;
  }
  double whole = std::max(repeating(high), low > 0 ? copying(low) : 0.0);

  Turn turn(chain, otherSeconds);
  auto atTurn = [&](double bytes) {
    return turn.seconds(static_cast<double>(budget) + bytes,
                        bytes * outSecondsPerByte, bytes * inSecondsPerByte);
  };
  low = 0;
  high = std::max(0.0, turn.mostBytes() - static_cast<double>(budget));
  for (int step = 0; step < kSections; ++step) {
    double third = (high - low) / 3, left = low + third, right = high - third;
    // With too few bytes on the host, the time is infinite, so continue with
    // more bytes.
    if (double seconds = atTurn(left);
        seconds == infinity || seconds > atTurn(right))
      low = left;
    else
      high = right;
  }
  double least = std::min(atTurn(0), atTurn(high));
  return std::max(whole, least * (1 - 1e-7));
}
