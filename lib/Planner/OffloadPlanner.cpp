//===- OffloadPlanner.cpp - Selection and timing of offloads ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/OffloadPlanner.h"

#include "LinkPlacer.h"

#include <algorithm>
#include <numeric>

using namespace kiln;

/// Limit on the steps of improve(), which take a few nanoseconds each.
static constexpr uint64_t kImprovementSteps = 20'000'000;

namespace {

/// For a given set of offloaded values, chooses when the program waits for the
/// copy of each value to the host, and when it starts the copy back.
class OffloadPlacer {
public:
  explicit OffloadPlacer(const OffloadProblem &problem)
      : problem(problem), count(static_cast<int32_t>(problem.seconds.size())),
        reversedSeconds(problem.seconds.rbegin(), problem.seconds.rend()),
        reversedLive(problem.live.rbegin(), problem.live.rend()) {}

  /// Returns the solution that offloads `items`, which are indices of items of
  /// the problem.
  OffloadSolution run(const std::vector<int32_t> &items);

private:
  double place(const std::vector<double> &seconds, double secondsPerByte,
               const std::vector<int64_t> &resident,
               std::vector<Transfer> &transfers);
  /// Converts the index of a command to its index in reversed time, or back.
  int32_t mirror(int32_t c) const { return count - 1 - c; }

  const OffloadProblem &problem;
  int32_t count;
  std::vector<double> reversedSeconds;
  std::vector<int64_t> reversedLive;

  // Scratch.
  LinkPlacer placer;
  std::vector<Transfer> out, in, sorted;
  std::vector<size_t> order;
  /// The change, at each command, of the bytes that are only on the host.
  std::vector<int64_t> leaving;
};

} // namespace

/// Places the transfers of one direction, which need not be sorted. Returns the
/// seconds spent waiting for them.
double OffloadPlacer::place(const std::vector<double> &seconds,
                            double secondsPerByte,
                            const std::vector<int64_t> &resident,
                            std::vector<Transfer> &transfers) {
  order.resize(transfers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(transfers[a].ready, a) < std::pair(transfers[b].ready, b);
  });
  sorted.clear();
  for (size_t i : order)
    sorted.push_back(transfers[i]);
  double waits =
      placer.run(seconds, {secondsPerByte, problem.capacity}, resident, sorted);
  for (size_t i = 0; i < order.size(); ++i)
    transfers[order[i]] = sorted[i];
  return waits;
}

OffloadSolution OffloadPlacer::run(const std::vector<int32_t> &items) {
  OffloadSolution solution;
  out.clear();
  for (int32_t i : items) {
    const OffloadItem &item = problem.items[i];
    out.push_back({item.bytes, item.made, item.left, item.back, item.back});
  }
  double waits =
      place(problem.seconds, problem.outSecondsPerByte, problem.live, out);

  // Place the copies to the device in reversed time. There, a copy can start
  // after the command that needs the value (Transfer::ready). Its limit
  // (Transfer::limit) is the last command, in program order, before the value
  // leaves the device.
  in.clear();
  for (const Transfer &transfer : out)
    in.push_back({transfer.bytes, mirror(transfer.limit),
                  mirror(transfer.limit), mirror(transfer.gone) + 1,
                  mirror(transfer.gone) + 1});
  waits += place(reversedSeconds, problem.inSecondsPerByte, reversedLive, in);

  leaving.assign(size_t(count) + 1, 0);
  for (size_t i = 0; i < items.size(); ++i) {
    // In reversed time, in[i].gone is the first command without the value. In
    // program order, it is the last one.
    int32_t wait = out[i].gone, begin = mirror(in[i].gone) + 1;
    if (wait >= begin)
      continue; // The value never leaves the device.
    solution.offloaded.push_back({items[i], wait, begin});
    leaving[wait] += out[i].bytes;
    leaving[begin] -= out[i].bytes;
  }
  solution.seconds =
      std::accumulate(problem.seconds.begin(), problem.seconds.end(), waits);
  int64_t away = 0;
  for (int32_t c = 0; c < count; ++c) {
    away += leaving[c];
    solution.excess =
        std::max(solution.excess, problem.live[c] - away - problem.capacity);
  }
  return solution;
}

OffloadSolution kiln::placeOffload(const OffloadProblem &problem,
                                   const std::vector<int32_t> &items) {
  return OffloadPlacer(problem).run(items);
}

/// As long as commands wait for the link, tries sets of offloaded values that
/// differ by one added, removed or exchanged value. Stops if no such set is
/// faster or the effort is spent.
static OffloadSolution improve(const OffloadProblem &problem,
                               OffloadPlacer &placer, OffloadSolution best,
                               std::vector<bool> chosen) {
  double compute =
      std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0);
  uint64_t steps = 0;
  int64_t host = 0;
  for (size_t i = 0; i < chosen.size(); ++i)
    host += chosen[i] ? problem.items[i].bytes : 0;
  std::vector<int32_t> items;
  auto tryIt = [&] {
    steps += 4 * problem.seconds.size();
    if (host > problem.hostCapacity)
      return false;
    items.clear();
    for (size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i])
        items.push_back(static_cast<int32_t>(i));
    OffloadSolution solution = placer.run(items);
    if (solution.excess > best.excess ||
        (solution.excess == best.excess && solution.seconds >= best.seconds))
      return false;
    best = std::move(solution);
    return true;
  };
  auto flip = [&](size_t i) {
    chosen[i] = !chosen[i];
    host += (chosen[i] ? 1 : -1) * problem.items[i].bytes;
  };
  for (bool better = true; better;) {
    better = false;
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (best.seconds <= compute * (1 + 1e-9) && best.fits())
        return best;
      if (steps > kImprovementSteps)
        return best;
      flip(i);
      if (tryIt()) {
        better = true;
        continue;
      }
      // Adding or removing only value i is not faster. Try an exchange: if
      // value i was added, also remove a value j; if it was removed, also add a
      // value j.
      bool exchanged = false;
      for (size_t j = 0; j < chosen.size() && !exchanged; ++j) {
        if (j == i || chosen[j] != chosen[i] || steps > kImprovementSteps)
          continue;
        flip(j);
        exchanged = tryIt();
        if (!exchanged)
          flip(j);
      }
      if (exchanged)
        better = true;
      else
        flip(i);
    }
  }
  return best;
}

OffloadSolution kiln::planOffload(const OffloadProblem &problem) {
  auto count = static_cast<int32_t>(problem.live.size());
  std::vector<bool> chosen(problem.items.size(), false);
  // Live bytes with the chosen values offloaded, if every copy were instant.
  std::vector<int64_t> live = problem.live;
  int64_t host = 0;
  auto take = [&](size_t i, int64_t sign) {
    const OffloadItem &item = problem.items[i];
    chosen[i] = sign > 0;
    host += sign * item.bytes;
    for (int32_t c = item.left + 1; c < item.back; ++c)
      live[c] -= sign * item.bytes;
  };
  std::vector<size_t> byAge(problem.items.size());
  std::iota(byAge.begin(), byAge.end(), 0);
  std::sort(byAge.begin(), byAge.end(), [&](size_t a, size_t b) {
    return std::pair(problem.items[a].made, a) <
           std::pair(problem.items[b].made, b);
  });
  for (int32_t c = 0; c < count; ++c) {
    for (size_t i : byAge) {
      if (live[c] <= problem.capacity)
        break;
      const OffloadItem &item = problem.items[i];
      if (!chosen[i] && item.left < c && c < item.back &&
          host + item.bytes <= problem.hostCapacity)
        take(i, 1);
    }
  }
  auto listed = [&] {
    std::vector<int32_t> items;
    for (size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i])
        items.push_back(static_cast<int32_t>(i));
    return items;
  };
  // Remove the values that need not be offloaded, largest first.
  std::vector<size_t> bySize;
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i])
      bySize.push_back(i);
  std::sort(bySize.begin(), bySize.end(), [&](size_t a, size_t b) {
    return std::pair(-problem.items[a].bytes, a) <
           std::pair(-problem.items[b].bytes, b);
  });
  for (size_t i : bySize) {
    const OffloadItem &item = problem.items[i];
    bool needed = false;
    for (int32_t c = item.left + 1; c < item.back && !needed; ++c)
      needed = live[c] + item.bytes > problem.capacity;
    if (!needed)
      take(i, -1);
  }
  OffloadPlacer placer(problem);
  return improve(problem, placer, placer.run(listed()), std::move(chosen));
}
