//===- StateRelaxation.cpp - Lower bound by Lagrangian relaxation ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateRelaxation.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

using namespace kiln;

/// Maximum number of windows that end at a reader of a parameter. There are up
/// to two more windows, and masks have a bit for each of them.
static constexpr size_t kWindows = 8;
static_assert(kWindows + 2 < 32);

//===----------------------------------------------------------------------===//
// Windows and classes
//===----------------------------------------------------------------------===//

StateRelaxation::StateRelaxation(const StateProblem &problem)
    : problem(problem),
      capacity(double(problem.capacity - problem.fixedBytes)) {
  divideIntoWindows();
  addClasses();
}

/// Divides the commands before the updates so that the windows have about the
/// same number of groups of readers.
void StateRelaxation::divideIntoWindows() {
  auto last = static_cast<int32_t>(problem.seconds.size()) - 1;
  std::vector<double> commands = problem.seconds;
  // If there is a join, or if all updates follow all other commands, the last
  // window has all updates, because their order is free.
  int32_t before = problem.join >= 0 ? problem.join : last;
  for (const StateGroup &group : problem.groups)
    if (group.update >= 0) {
      commands[group.update] = 0;
      if (problem.updatesLast)
        before = std::min(before, group.update - 1);
    }
  std::vector<int32_t> reads;
  for (const StateGroup &group : problem.groups)
    for (auto [first, final] : group.readers)
      if (first < before)
        reads.push_back(first);
  std::sort(reads.begin(), reads.end());
  auto endAt = [&](int32_t command) {
    if (command >= 0 && (ends.empty() || command > ends.back()))
      ends.push_back(command);
  };
  for (size_t i = 1; i <= kWindows; ++i)
    if (size_t count = i * reads.size() / kWindows)
      endAt(reads[count - 1]);
  endAt(before);
  endAt(last);
  seconds.assign(ends.size(), 0);
  for (int32_t c = 0; c <= last; ++c)
    seconds[windowOf(c)] += commands[c];
}

int StateRelaxation::windowOf(int32_t command) const {
  return static_cast<int>(std::lower_bound(ends.begin(), ends.end(), command) -
                          ends.begin());
}

void StateRelaxation::addClasses() {
  std::map<std::tuple<double, double, double, double, double, double, int, int,
                      uint32_t, uint32_t>,
           size_t>
      indices;
  for (const StateGroup &group : problem.groups) {
    Class added;
    added.parameterBytes = double(group.parameterBytes);
    added.momentBytes = double(group.momentBytes);
    added.gradientBytes = double(group.gradientBytes);
    added.renewedBytes = added.parameterBytes * group.renewedShare;
    bool isFrozen = group.update < 0;
    added.deviceSeconds = isFrozen ? 0 : problem.seconds[group.update];
    added.hostSeconds = isFrozen ? 0 : group.hostSeconds;
    added.gradient = isFrozen ? 0 : windowOf(group.gradient);
    added.update = isFrozen ? -1 : windowOf(group.update);
    added.hostUpdate = std::max(added.gradient, problem.join >= 0 && !isFrozen
                                                    ? windowOf(problem.join + 1)
                                                    : 0);
    assert(isFrozen ||
           (group.gradient <= group.update && problem.join < group.update));
    // Recomputed commands may divide a group of readers into two, so only its
    // first and its last reader certainly need the parameter.
    for (auto [first, last] : group.readers)
      added.reads |= 1u << windowOf(first) | 1u << windowOf(last);
    added.readsWithUpdate = added.reads;
    if (!isFrozen && group.updateReads)
      added.readsWithUpdate |= 1u << added.update;
    auto [it, isNew] = indices.try_emplace(
        {added.parameterBytes, added.momentBytes, added.gradientBytes,
         added.renewedBytes, added.deviceSeconds, added.hostSeconds,
         added.gradient, added.update, added.reads, added.readsWithUpdate},
        classes.size());
    if (isNew)
      classes.push_back(added);
    ++classes[it->second].count;
  }
}

//===----------------------------------------------------------------------===//
// Routes
//===----------------------------------------------------------------------===//

/// Returns the mask of the windows from `from` to `to` - 1.
static uint32_t windows(int from, int to) { return (1u << to) - (1u << from); }

/// Returns the cost of bytes that are on the device at the ends of the windows
/// from `from` to `to` - 1.
double StateRelaxation::heldCost(double bytes, int from, int to) const {
  double price = 0;
  for (int w = from; w < to; ++w)
    price += multipliers.prices[w];
  return price * bytes * problem.inSecondsPerByte;
}

double StateRelaxation::copyCost(double bytes, int window, Resource direction,
                                 double latency) const {
  double perByte =
      direction == In ? problem.inSecondsPerByte : problem.outSecondsPerByte;
  return multipliers.weights[window][linkOf(direction)] *
         (bytes * perByte + latency);
}

/// Bytes that are always on the device.
StateRelaxation::Route StateRelaxation::keep(double bytes) const {
  int last = static_cast<int>(ends.size()) - 1;
  return {bytes, heldCost(bytes, 0, last), 0, 0, windows(0, last)};
}

/// One copy to the device, in one of the windows from `earliest` to `need`.
StateRelaxation::Route StateRelaxation::copyIn(double bytes, int earliest,
                                               int need) const {
  Route best;
  best.cost = std::numeric_limits<double>::infinity();
  for (int w = need; w >= earliest; --w) {
    double cost =
        copyCost(bytes, w, In, problem.copyLatency) + heldCost(bytes, w, need);
    if (cost < best.cost)
      best = {bytes, cost, 1u << w, 0, windows(w, need), problem.copyLatency};
  }
  return best;
}

/// One copy of bytes that window `made` computes to the host, in one of the
/// windows from `made` to `latest`.
StateRelaxation::Route StateRelaxation::copyOut(double bytes, int made,
                                                int latest,
                                                double latency) const {
  Route best;
  best.cost = std::numeric_limits<double>::infinity();
  for (int w = made; w <= latest; ++w) {
    double cost = copyCost(bytes, w, Out, latency) + heldCost(bytes, made, w);
    if (cost < best.cost)
      best = {bytes, cost, 0, 1u << w, windows(made, w), latency};
  }
  return best;
}

/// The copies of a parameter from the host to the device for its readers. They
/// may share copies.
StateRelaxation::Route StateRelaxation::copyForReaders(double bytes,
                                                       uint32_t reads) const {
  // The cheapest routes with which the parameter is on the device at the end of
  // the current window, or not.
  Route on, off;
  on.cost = std::numeric_limits<double>::infinity();
  on.bytes = off.bytes = bytes;
  on.latency = off.latency = problem.copyLatency;
  for (int w = 0, last = static_cast<int>(ends.size()) - 1; w <= last; ++w) {
    uint32_t bit = 1u << w;
    Route copied = off;
    copied.cost += copyCost(bytes, w, In, problem.copyLatency);
    copied.in |= bit;
    Route present = on.cost < copied.cost ? on : copied;
    off = reads & bit || on.cost < off.cost ? present : off;
    on = present;
    on.cost += heldCost(bytes, w, std::min(w + 1, last));
    on.held |= w < last ? bit : 0;
  }
  return on.cost < off.cost ? on : off;
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

/// Adds the routes of one of the lists, whichever has the lower cost.
void StateRelaxation::addCheaper(Choice &choice,
                                 std::initializer_list<Route> first,
                                 std::initializer_list<Route> second) const {
  auto sum = [](std::initializer_list<Route> routes) {
    double cost = 0;
    for (const Route &route : routes)
      cost += route.cost;
    return cost;
  };
  const auto &cheaper = sum(second) < sum(first) ? second : first;
  choice.routes.insert(choice.routes.end(), cheaper.begin(), cheaper.end());
}

/// Adds the routes of a gradient that waits for the update on the device: it
/// stays there, or is copied to the host and back.
void StateRelaxation::addGradient(Choice &choice, const Class &group) const {
  double bytes = group.gradientBytes;
  int made = group.gradient, need = group.update;
  Route out, in;
  out.cost = std::numeric_limits<double>::infinity();
  for (int w = made; w <= need; ++w) {
    Route leaving = copyOut(bytes, made, w, problem.copyLatency),
          coming = copyIn(bytes, w, need);
    if (leaving.cost + coming.cost < out.cost + in.cost)
      out = leaving, in = coming;
  }
  addCheaper(choice,
             {{bytes, heldCost(bytes, made, need), 0, 0, windows(made, need)}},
             {out, in});
}

StateRelaxation::Choice
StateRelaxation::updateOnDevice(const Class &group) const {
  Choice choice;
  double moments = group.momentBytes, parameter = group.parameterBytes;
  if (group.update < 0) {
    addCheaper(choice, {keep(parameter)},
               {copyForReaders(parameter, group.reads)});
    return choice;
  }
  int last = static_cast<int>(ends.size()) - 1;
  choice.window = group.update;
  choice.seconds = group.deviceSeconds;
  addCheaper(choice, {keep(moments)},
             {copyIn(moments, 0, group.update),
              copyOut(moments, group.update, last, problem.copyLatency)});
  // One copy may return both the parameter and its moments, so count its
  // latency only once.
  addCheaper(choice, {keep(parameter)},
             {copyForReaders(parameter, group.readsWithUpdate),
              copyOut(parameter, group.update, last, 0)});
  addGradient(choice, group);
  return choice;
}

StateRelaxation::Choice
StateRelaxation::updateOnHost(const Class &group) const {
  int last = static_cast<int>(ends.size()) - 1;
  Choice choice;
  choice.resource = problem.hostOverlaps ? HostProcessor : Device;
  choice.seconds = group.hostSeconds;
  choice.routes.push_back(
      copyOut(group.gradientBytes, group.gradient, last, problem.copyLatency));
  // If the device has a copy of the parameter, the new value is copied to it.
  Route renewed;
  renewed.cost = std::numeric_limits<double>::infinity();
  choice.window = group.hostUpdate;
  for (int w = group.hostUpdate; w <= last; ++w) {
    if (multipliers.weights[w][choice.resource] <
        multipliers.weights[choice.window][choice.resource])
      choice.window = w;
    double cost = copyCost(group.renewedBytes, w, In, problem.copyLatency);
    if (cost < renewed.cost)
      renewed = {group.renewedBytes, cost, 1u << w, 0, 0, problem.copyLatency};
  }
  addCheaper(choice, {keep(group.parameterBytes), renewed},
             {copyForReaders(group.parameterBytes, group.reads)});
  return choice;
}

double StateRelaxation::costOf(const Choice &choice) const {
  double cost =
      multipliers.weights[choice.window][choice.resource] * choice.seconds;
  for (const Route &route : choice.routes)
    cost += route.cost;
  return cost;
}

void StateRelaxation::add(const Choice &choice, double count) {
  use.busy[choice.window][choice.resource] += count * choice.seconds;
  for (const Route &route : choice.routes)
    for (size_t w = 0; w < ends.size(); ++w) {
      double bytes = count * route.bytes, latency = count * route.latency;
      if (route.in >> w & 1)
        use.busy[w][In] += bytes * problem.inSecondsPerByte + latency;
      if (route.out >> w & 1)
        use.busy[w][linkOf(Out)] += bytes * problem.outSecondsPerByte + latency;
      if (route.held >> w & 1)
        use.held[w] += bytes;
    }
}

/// Makes the cheapest choice for each group, and returns the lower bound that
/// results from the multipliers.
double StateRelaxation::evaluate() {
  use.busy.assign(ends.size(), {});
  use.held.assign(ends.size(), 0);
  double bound = 0;
  for (size_t w = 0; w < ends.size(); ++w) {
    use.busy[w][Device] = seconds[w];
    bound += multipliers.weights[w][Device] * seconds[w] -
             multipliers.prices[w] * problem.inSecondsPerByte * capacity;
  }
  for (const Class &group : classes) {
    Choice choice = updateOnDevice(group);
    if (group.update >= 0) {
      Choice onHost = updateOnHost(group);
      if (costOf(onHost) < costOf(choice))
        choice = std::move(onHost);
    }
    bound += group.count * costOf(choice);
    add(choice, group.count);
  }
  return bound;
}

//===----------------------------------------------------------------------===//
// The volume algorithm
//===----------------------------------------------------------------------===//

/// Number of evaluations.
static constexpr int kSteps = 2000;
/// The direction of a step is the subgradient of the mean of all earlier
/// choices, in which the newest choices have this weight.
static constexpr double kNewest = 0.005;
/// The length of a step is `factor` times the step that would reach `target` if
/// the bound were linear. The factor starts at kFactor. It is multiplied by
/// kLonger after a step that raises the bound and could have been longer, and
/// by kShorter after kFailures steps that do not raise it.
static constexpr double kFactor = 0.5, kLonger = 1.1, kMostFactor = 2,
                        kShorter = 0.66, kLeastFactor = 1e-4;
static constexpr int kFailures = 20;
/// The ascent ends if the squared length of the direction is below kShortest
/// times the square of the target.
static constexpr double kShortest = 1e-20;
/// The target is this multiple of the bound when the bound comes close to it.
static constexpr double kTarget = 1.05, kClose = 0.95, kFirstTarget = 1.2;

/// Projects `weights` onto the probability simplex: moves them to the nearest
/// point at which no weight is negative and their sum is 1.
template <size_t N> static void project(std::array<double, N> &weights) {
  std::array<double, N> sorted = weights;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0, shift = 0;
  for (size_t i = 0; i < N; ++i) {
    sum += sorted[i];
    double mean = (sum - 1) / double(i + 1);
    if (sorted[i] > mean)
      shift = mean;
  }
  sum = 0;
  for (double &weight : weights)
    sum += weight = std::max(0.0, weight - shift);
  for (double &weight : weights)
    weight /= sum;
}

/// Returns the direction in which the bound increases fastest if the choices
/// use `mean`. Multipliers that are 0 do not decrease.
StateRelaxation::Multipliers
StateRelaxation::directionFrom(const Multipliers &from, const Use &mean) const {
  Multipliers direction;
  direction.weights.assign(ends.size(), {});
  direction.prices.assign(ends.size(), 0);
  for (size_t w = 0; w < ends.size(); ++w) {
    const PerResource &busy = mean.busy[w], &weights = from.weights[w];
    // Hardly change the sum of the weights, which project() then makes 1 again.
    double most = *std::max_element(busy.begin(), busy.end()), sum = 0;
    int count = 0;
    for (size_t r = 0; r < kResources; ++r)
      if (weights[r] > 0 || busy[r] == most) {
        sum += busy[r];
        ++count;
      }
    for (size_t r = 0; r < kResources; ++r)
      if (double more = busy[r] - sum / count; weights[r] > 0 || more > 0)
        direction.weights[w][r] = more;
    double excess = problem.inSecondsPerByte * (mean.held[w] - capacity);
    if (w + 1 < ends.size() && (from.prices[w] > 0 || excess > 0))
      direction.prices[w] = excess;
  }
  return direction;
}

/// Returns the derivative of the bound in a direction if the choices do not
/// change.
double StateRelaxation::slopeIn(const Multipliers &direction) const {
  double slope = 0;
  for (size_t w = 0; w < ends.size(); ++w) {
    slope += std::inner_product(use.busy[w].begin(), use.busy[w].end(),
                                direction.weights[w].begin(), 0.0);
    slope += direction.prices[w] * problem.inSecondsPerByte *
             (use.held[w] - capacity);
  }
  return slope;
}

/// Returns the sum of the squares of `parts`.
template <typename Parts> static double squareOf(const Parts &parts) {
  return std::inner_product(parts.begin(), parts.end(), parts.begin(), 0.0);
}

/// Returns the largest bound that the volume algorithm finds from the current
/// multipliers.
double StateRelaxation::ascend() {
  size_t count = ends.size();
  Multipliers best = multipliers;
  double bound = evaluate(), factor = kFactor;
  double target =
      std::max(kFirstTarget * bound,
               std::accumulate(seconds.begin(), seconds.end(), 0.0));
  Use mean = use;
  int failures = 0;
  for (int step = 0; step < kSteps; ++step) {
    Multipliers direction = directionFrom(best, mean);
    double square = squareOf(direction.prices);
    for (const PerResource &part : direction.weights)
      square += squareOf(part);
    // A shorter direction consists of rounding errors.
    if (square <= kShortest * target * target)
      break;
    double length = factor * (target - bound) / square;
    for (size_t w = 0; w < count; ++w) {
      for (size_t r = 0; r < kResources; ++r)
        multipliers.weights[w][r] =
            best.weights[w][r] + length * direction.weights[w][r];
      project(multipliers.weights[w]);
      multipliers.prices[w] =
          std::max(0.0, best.prices[w] + length * direction.prices[w]);
    }
    double found = evaluate();
    for (size_t w = 0; w < count; ++w) {
      for (size_t r = 0; r < kResources; ++r)
        mean.busy[w][r] += kNewest * (use.busy[w][r] - mean.busy[w][r]);
      mean.held[w] += kNewest * (use.held[w] - mean.held[w]);
    }
    if (found > bound) {
      bound = found;
      best = multipliers;
      failures = 0;
      if (slopeIn(direction) > 0)
        factor = std::min(factor * kLonger, kMostFactor);
      if (bound > kClose * target)
        target = kTarget * bound;
    } else if (++failures == kFailures) {
      if (factor <= kLeastFactor)
        break;
      factor = std::max(factor * kShorter, kLeastFactor);
      failures = 0;
    }
  }
  return bound;
}

/// Returns the time of a program that executes all commands, updates and copies
/// one after the other, with a generous number of copies. No bound needs to be
/// larger; without this limit, the bound of an infeasible problem would be
/// huge.
double StateRelaxation::mostSeconds() const {
  constexpr double copies = 8;
  double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  double perByte = problem.inSecondsPerByte + problem.outSecondsPerByte;
  for (const Class &group : classes)
    sum += group.count *
           (group.deviceSeconds + group.hostSeconds +
            copies * (problem.copyLatency +
                      perByte * (group.parameterBytes + group.momentBytes +
                                 group.gradientBytes)));
  return sum;
}

double StateRelaxation::bound() {
  size_t count = ends.size();
  if (count == 0)
    return 0;
  multipliers.weights.assign(count, {0.25, 0.25, 0.25, 0.25});
  multipliers.prices.assign(count, 0);
  double bound = ascend();
  // The device limits all windows but the last one, which is limited by the
  // copies of what does not fit on the device at its start.
  const double third = 1.0 / 3;
  multipliers.weights.assign(count, {1, 0, 0, 0});
  multipliers.weights.back() = {0, third, third, third};
  multipliers.prices.assign(count, 0);
  if (count > 1)
    multipliers.prices[count - 2] = third;
  return std::min(std::max(bound, ascend()), mostSeconds());
}
