//===- StatePlanner.cpp - Shares of states on the host --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/StatePlanner.h"

#include "StateEvaluator.h"

#include "kiln/Support/ShareSelector.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

using namespace kiln::support;
using namespace kiln;

/// planStates() searches for the shares of the parameter bytes to which each
/// kind of choice applies (see StateShares), in multiples of 1 / kShares. Its
/// coarse grid has steps of kCoarse / kShares.
static constexpr int kShares = 256, kCoarse = 32;
/// Number of points of the coarse grid from which the search continues: the
/// best ones.
static constexpr size_t kStarts = 8;
/// The penalty for a byte above the memory capacities, as a multiple of the
/// time to copy the byte to the host and back. kHighPenalty is used if the
/// search with kPenalty finds no point that is within the capacities.
static constexpr double kPenalty = 4, kHighPenalty = 1000;
/// The number of groups of states that refineStates() changes, and the maximum
/// number of passes over them.
static constexpr size_t kRefinedGroups = 512;
static constexpr int kRefinements = 10;
/// A change is skipped if more than this number of similar changes were tried
/// in succession without an improvement.
static constexpr size_t kMostFailures = 8;
/// The number of groups of states that planStates() changes one at a time, and
/// the maximum number of passes over them.
static constexpr size_t kLargest = 8;
static constexpr int kLargestPasses = 2;
/// If the choices that need the least memory exceed the capacity by more than
/// capacity / kHopeless, no other choices are tried.
static constexpr int64_t kHopeless = 64;
/// Groups of states that are larger than the mean size by more than this factor
/// are treated separately.
static constexpr int64_t kLargeFactor = 8;
/// Small groups stay on the device if they take at most capacity / kSmallShare
/// in total.
static constexpr int64_t kSmallShare = 128;

namespace {
/// A selector of groups for each kind of choice.
struct Selectors {
  Selectors(int64_t bytes, const StateShares &shares)
      : bytes(bytes), optimizer(shares.optimizer), moments(shares.moments),
        gradients(shares.gradients), parameters(shares.parameters) {}

  /// With Spread::WithinSizes, the size of the parameter of each group.
  int64_t bytes;
  ShareSelector optimizer, moments, gradients, parameters;
};
} // namespace

std::vector<StateChoice>
kiln::spreadShares(const std::vector<StateGroup> &groups,
                   const StateShares &shares, Spread spread) {
  std::vector<Selectors> sizes;
  std::vector<StateChoice> choices;
  for (const StateGroup &group : groups) {
    int64_t bytes = group.parameterBytes;
    auto selectors =
        std::find_if(sizes.begin(), sizes.end(), [&](const Selectors &other) {
          return spread == Spread::OverAll || other.bytes == bytes;
        });
    if (selectors == sizes.end())
      selectors = sizes.emplace(sizes.end(), bytes, shares);
    StateChoice &choice = choices.emplace_back();
    choice.parameterOnHost = selectors->parameters.select(bytes);
    if (group.update < 0)
      continue;
    if (selectors->optimizer.select(bytes))
      choice.update = UpdatePlace::Host;
    if (selectors->moments.select(bytes, choice.update == UpdatePlace::Device))
      choice.update = UpdatePlace::Swapped;
    choice.gradientAway =
        selectors->gradients.select(bytes, choice.update != UpdatePlace::Host);
  }
  return choices;
}

namespace {

/// The numerators of the four shares of StateShares. The denominator is
/// kShares.
using Point = std::array<int, 4>;

/// Searches for the best StateShares: for each kind of choice, the share of the
/// parameter bytes to which it applies. Stores the points that it has
/// evaluated. The shares apply to all groups except those in `large`, whose
/// choices are fixed, and those in `small`, which stay on the device.
class Search {
public:
  Search(const StateProblem &problem, const std::vector<size_t> &large,
         std::vector<StateChoice> largeChoices,
         const std::vector<size_t> &small);
  StateSolution run(const std::optional<StateShares> &start);

private:
  /// The result of evaluating a point, that is, a choice of shares.
  struct Outcome {
    double seconds;
    int64_t copiedBytes;
    int64_t excess; ///< Bytes above the memory capacities.
  };
  /// The duration with a penalty for each byte that does not fit, and the bytes
  /// that are copied.
  using Key = std::pair<double, int64_t>;

  Key keyOf(const Outcome &outcome) const {
    return {outcome.seconds + penalty * double(outcome.excess),
            outcome.copiedBytes};
  }
  void visit(const std::vector<Point> &points);
  void climb(int step);
  std::vector<StateChoice> choicesOf(const StateShares &shares) const;
  StateSolution solutionOf(const Point &point);

  const StateProblem &problem;
  StateEvaluator evaluator;
  std::vector<StateChoice> largeChoices;
  /// `fixed` has an element for each group, but only the choices of the large
  /// groups are set. `others` are the groups that are neither large nor small,
  /// and `indices` are their indices among all groups.
  std::vector<StateChoice> fixed;
  std::vector<StateGroup> others;
  std::vector<size_t> indices;
  std::map<Point, Outcome> outcomes;
  double penalty = 0;
  Point best = {0, 0, 0, 0};
  /// The fastest point that fits, if any.
  std::optional<std::pair<Key, Point>> fitting;
  /// The point that exceeds the capacities by the fewest bytes.
  std::pair<int64_t, Point> least = {INT64_MAX, {}};
};

} // namespace

static StateShares sharesOf(const Point &point) {
  return {double(point[0]) / kShares, double(point[1]) / kShares,
          double(point[2]) / kShares, double(point[3]) / kShares};
}

Search::Search(const StateProblem &problem, const std::vector<size_t> &large,
               std::vector<StateChoice> choices,
               const std::vector<size_t> &small)
    : problem(problem), evaluator(problem), largeChoices(std::move(choices)),
      fixed(problem.groups.size()) {
  std::vector<uint8_t> isFixed(problem.groups.size(), 0);
  for (size_t k = 0; k < large.size(); ++k) {
    fixed[large[k]] = largeChoices[k];
    isFixed[large[k]] = 1;
  }
  for (size_t i : small)
    isFixed[i] = 1;
  for (size_t i = 0; i < problem.groups.size(); ++i)
    if (!isFixed[i]) {
      others.push_back(problem.groups[i]);
      indices.push_back(i);
    }
}

std::vector<StateChoice> Search::choicesOf(const StateShares &shares) const {
  std::vector<StateChoice> choices = fixed,
                           spread =
                               spreadShares(others, shares, problem.spread);
  for (size_t k = 0; k < indices.size(); ++k)
    choices[indices[k]] = spread[k];
  return choices;
}

static bool isValid(const Point &point) {
  for (int part : point)
    if (part < 0 || part > kShares)
      return false;
  return point[0] + point[1] <= kShares && point[0] + point[2] <= kShares;
}

/// Evaluates the valid points that are not yet evaluated, and moves to the best
/// valid point if it is better than the current point.
void Search::visit(const std::vector<Point> &points) {
  std::vector<std::pair<Point, Outcome *>> added;
  for (const Point &point : points)
    if (isValid(point))
      if (auto [it, isNew] = outcomes.try_emplace(point); isNew)
        added.emplace_back(point, &it->second);
  std::vector<StateCost> costs = evaluator.run(added.size(), [&](size_t i) {
    return choicesOf(sharesOf(added[i].first));
  });
  for (size_t i = 0; i < added.size(); ++i) {
    auto [point, outcome] = added[i];
    *outcome = {costs[i].seconds, costs[i].copiedBytes,
                excessOf(costs[i], problem)};
    least = std::min(least, {outcome->excess, point});
    if (outcome->excess == 0 && (!fitting || keyOf(*outcome) < fitting->first))
      fitting = {keyOf(*outcome), point};
  }
  for (const Point &point : points)
    if (isValid(point) && keyOf(outcomes.at(point)) < keyOf(outcomes.at(best)))
      best = point;
}

StateSolution Search::solutionOf(const Point &point) {
  StateSolution solution;
  solution.start = {sharesOf(point), largeChoices};
  solution.choices = choicesOf(solution.start.shares);
  solution.cost = evaluator.run(solution.choices, /*recordsLeads=*/true);
  solution.fits = fitting.has_value();
  return solution;
}

/// Moves `best`, a choice of the four shares of the parameter bytes, to better
/// points. Stops when no better point differs from `best` by `step` in up to
/// three shares.
void Search::climb(int step) {
  for (Point center = {-1, 0, 0, 0}; center != best;) {
    center = best;
    std::vector<Point> points;
    // Each base-3 digit of `code` changes one share by -step, 0 or +step.
    for (int code = 0; code < 81; ++code) {
      Point point = center;
      int moved = 0;
      for (int i = 0, rest = code; i < 4; ++i, rest /= 3) {
        point[i] += (rest % 3 - 1) * step;
        moved += rest % 3 != 1;
      }
      if (moved <= 3)
        points.push_back(point);
    }
    visit(points);
  }
}

StateSolution Search::run(const std::optional<StateShares> &start) {
  visit({best});
  if (fitting && !problem.movesFitting)
    return solutionOf(best);
  // The penalty for bytes that do not fit is finite, so that the search can
  // pass points that do not fit. It is higher than the time of copies, so that
  // the search leaves these points again.
  double perByte = problem.outSecondsPerByte + problem.inSecondsPerByte;
  penalty = kPenalty * perByte;
  auto numerator = [](double share) {
    return static_cast<int>(share * kShares + 0.5);
  };
  std::vector<Point> bases;
  if (start) {
    bases = {{numerator(start->optimizer), numerator(start->moments),
              numerator(start->gradients), numerator(start->parameters)}};
    visit(bases);
  } else {
    for (int optimizer = 0; optimizer <= kShares; optimizer += kCoarse)
      for (int moments = 0; optimizer + moments <= kShares; moments += kCoarse)
        for (int gradients = 0; optimizer + gradients <= kShares;
             gradients += kCoarse)
          for (int parameters = 0; parameters <= kShares; parameters += kCoarse)
            bases.push_back({optimizer, moments, gradients, parameters});
    visit(bases);
    // Different points of the coarse grid lead to different optima, so continue
    // from several good points.
    std::sort(bases.begin(), bases.end(), [&](const Point &a, const Point &b) {
      return std::pair(keyOf(outcomes.at(a)), a) <
             std::pair(keyOf(outcomes.at(b)), b);
    });
    bases.resize(std::min(bases.size(), kStarts));
  }
  auto climbFrom = [&](const Point &point) {
    best = point;
    for (int step = start ? kCoarse : kCoarse / 2; step > 0; step /= 2)
      climb(step);
  };
  for (const Point &base : bases)
    climbFrom(base);
  if (!fitting) {
    penalty = kHighPenalty * perByte;
    climbFrom(least.second);
  }
  return solutionOf(fitting ? fitting->second : least.second);
}

//===----------------------------------------------------------------------===//
// Refinement
//===----------------------------------------------------------------------===//

/// Returns a number that identifies a choice.
static int codeOf(const StateChoice &choice) {
  return static_cast<int>(choice.update) * 4 + choice.parameterOnHost * 2 +
         choice.gradientAway;
}

/// Returns the choices that a group of states may have.
static std::vector<StateChoice> choicesFor(const StateGroup &group) {
  std::vector<StateChoice> choices;
  for (UpdatePlace update :
       {UpdatePlace::Device, UpdatePlace::Swapped, UpdatePlace::Host})
    for (int bits = 0; bits < 4; ++bits) {
      bool isAway = bits & 2;
      bool isPossible = group.update < 0
                            ? update == UpdatePlace::Device && !isAway
                            : update != UpdatePlace::Host || !isAway;
      if (isPossible)
        choices.push_back({update, (bits & 1) != 0, isAway});
    }
  return choices;
}

/// Tries other choices for the largest groups of states, one group at a time,
/// and keeps those that are better.
static StateSolution refineLargest(const StateProblem &problem,
                                   StateSolution solution, size_t count,
                                   int passes) {
  auto keyOf = [&](const StateCost &cost) {
    return std::tuple(excessOf(cost, problem), cost.seconds, cost.copiedBytes);
  };
  StateEvaluator evaluator(problem);
  std::vector<size_t> bySize(problem.groups.size());
  std::iota(bySize.begin(), bySize.end(), 0);
  std::sort(bySize.begin(), bySize.end(), [&](size_t a, size_t b) {
    return std::pair(-problem.groups[a].parameterBytes, a) <
           std::pair(-problem.groups[b].parameterBytes, b);
  });
  bySize.resize(std::min(bySize.size(), count));
  for (int pass = 0; pass < passes; ++pass) {
    bool isBetter = false;
    // The number of successive changes that were not better, for each kind of
    // change and each group size. The layers of a program have similar groups,
    // so after several failures, further changes of this kind are probably not
    // better either.
    std::map<std::tuple<int64_t, int, int>, size_t> failures;
    for (size_t i : bySize) {
      StateChoice &current = solution.choices[i];
      std::vector<StateChoice> choices = choicesFor(problem.groups[i]);
      auto failed = [&](const StateChoice &choice) -> size_t & {
        return failures[{problem.groups[i].parameterBytes, codeOf(current),
                         codeOf(choice)}];
      };
      auto isPromising = [&](const StateChoice &choice) {
        return choice != current && failed(choice) <= kMostFailures;
      };
      // The costs of the choices do not depend on the current choice, so they
      // can be computed together.
      std::vector<size_t> promising;
      for (size_t k = 0; k < choices.size(); ++k)
        if (isPromising(choices[k]))
          promising.push_back(k);
      auto changedTo = [&](const StateChoice &choice) {
        std::vector<StateChoice> changed = solution.choices;
        changed[i] = choice;
        return changed;
      };
      std::vector<StateCost> computed =
          evaluator.run(promising.size(), [&](size_t k) {
            return changedTo(choices[promising[k]]);
          });
      std::vector<std::optional<StateCost>> costs(choices.size());
      for (size_t k = 0; k < promising.size(); ++k)
        costs[promising[k]] = std::move(computed[k]);
      for (size_t k = 0; k < choices.size(); ++k) {
        if (!isPromising(choices[k]))
          continue;
        size_t &count = failed(choices[k]);
        if (!costs[k])
          costs[k] = evaluator.run(changedTo(choices[k]),
                                   /*recordsLeads=*/false);
        if (keyOf(*costs[k]) < keyOf(solution.cost)) {
          solution.cost = std::move(*costs[k]);
          current = choices[k];
          isBetter = true;
          count = 0;
        } else {
          ++count;
        }
      }
    }
    if (!isBetter)
      break;
  }
  solution.cost = evaluator.run(solution.choices, /*recordsLeads=*/true);
  solution.fits = excessOf(solution.cost, problem) == 0;
  return solution;
}

/// Returns the groups of states that are much larger than the mean, such as
/// embeddings. The choices for these groups decide whether the other groups fit
/// in device memory.
static std::vector<size_t> findLarge(const StateProblem &problem) {
  int64_t total = 0;
  for (const StateGroup &group : problem.groups)
    total += group.parameterBytes;
  std::vector<size_t> large;
  auto count = static_cast<int64_t>(problem.groups.size());
  for (size_t i = 0; i < problem.groups.size(); ++i)
    if (problem.groups[i].parameterBytes > kLargeFactor * total / count &&
        problem.groups[i].update >= 0)
      large.push_back(i);
  return large;
}

static int64_t totalBytes(const StateGroup &group) {
  return group.parameterBytes + group.momentBytes + group.gradientBytes;
}

/// Returns the groups of states whose copies would take longer to start than to
/// execute, such as biases, unless all of these groups together take much
/// device memory. The groups in `large` are not returned.
static std::vector<size_t> findSmall(const StateProblem &problem,
                                     const std::vector<size_t> &large) {
  double perByte =
      std::max(problem.inSecondsPerByte, problem.outSecondsPerByte);
  int64_t total = 0;
  std::vector<size_t> small;
  for (size_t i = 0; i < problem.groups.size(); ++i) {
    const StateGroup &group = problem.groups[i];
    if (double(group.parameterBytes) * perByte >= problem.copyLatency ||
        std::find(large.begin(), large.end(), i) != large.end())
      continue;
    small.push_back(i);
    total += totalBytes(group);
  }
  if (total > problem.capacity / kSmallShare ||
      small.size() + large.size() == problem.groups.size())
    small.clear();
  return small;
}

/// Returns the peak on the device if copies start as late as possible.
static int64_t leastPeak(StateProblem problem,
                         const std::vector<StateChoice> &choices) {
  problem.capacity = 0;
  return evaluateStates(problem, choices).peak;
}

/// Searches for the choices that fit in memory and have the shortest duration.
/// The groups in `small` stay on the device. `least` is the choice that takes
/// the least device memory.
static StateSolution search(const StateProblem &problem,
                            const std::vector<size_t> &small,
                            const StateChoice &least,
                            const std::optional<StateStart> &start) {
  std::vector<size_t> large = findLarge(problem);
  auto keyOf = [&](const StateSolution &solution) {
    return std::tuple(excessOf(solution.cost, problem), solution.cost.seconds,
                      solution.cost.copiedBytes);
  };
  // Unless `start` has choices for the large groups of states, make one choice
  // for all large groups. First, leave them on the device. If the device has
  // no room for all states, also try a plan in which all large groups are on
  // the host, where they take the least device memory.
  bool isLocal = start && start->large.size() == large.size();
  std::optional<StateShares> shares;
  std::vector<StateChoice> choices(large.size());
  if (isLocal) {
    shares = start->shares;
    choices = start->large;
  }
  StateSolution best = Search(problem, large, choices, small).run(shares);
  if (best.cost.hostPeak == 0)
    return best;
  if (!isLocal && !large.empty()) {
    choices.assign(large.size(), least);
    StateSolution other = Search(problem, large, choices, small).run(shares);
    if (keyOf(other) < keyOf(best))
      best = std::move(other);
  }
  choices = best.start.large;
  shares = best.start.shares;
  best = refineLargest(problem, std::move(best), kLargest, kLargestPasses);
  bool isChanged = false;
  for (size_t k = 0; k < large.size(); ++k) {
    isChanged |= best.choices[large[k]] != choices[k];
    choices[k] = best.choices[large[k]];
  }
  if (!isChanged)
    return best;
  StateSolution other = Search(problem, large, choices, small).run(shares);
  return keyOf(other) < keyOf(best) ? other : best;
}

StateSolution kiln::planStates(const StateProblem &problem,
                               const std::optional<StateStart> &start) {
  // Store all parameters on the host, and let the host update them. Hardly any
  // other choices need less device memory.
  StateSolution onHost;
  const StateChoice least = {UpdatePlace::Host, /*parameterOnHost=*/true,
                             /*gradientAway=*/false};
  onHost.choices.assign(problem.groups.size(), least);
  for (size_t i = 0; i < problem.groups.size(); ++i)
    if (problem.groups[i].update < 0)
      onHost.choices[i].update = UpdatePlace::Device;
  onHost.start.large.assign(findLarge(problem).size(), least);
  onHost.start.shares = {1, 0, 0, 1};
  onHost.cost = evaluateStates(problem, onHost.choices);
  auto isHopeless = [&](int64_t bytes, int64_t capacity) {
    return bytes > capacity + capacity / kHopeless;
  };
  int64_t hostLeft = problem.hostCapacity - onHost.cost.hostPeak;
  if (hostLeft >= 0 ? isHopeless(onHost.cost.peak, problem.capacity)
                    : problem.capacity > 0 &&
                          isHopeless(leastPeak(problem, onHost.choices),
                                     problem.capacity + hostLeft))
    return onHost;
  std::vector<size_t> small = findSmall(problem, findLarge(problem));
  StateSolution best = search(problem, small, least, start);
  // If the small groups do not stay on the device, the peak decreases by at
  // most about their size.
  int64_t total = 0;
  for (size_t i : small)
    total += totalBytes(problem.groups[i]);
  if (best.fits || small.empty() || best.cost.peak > problem.capacity + total)
    return best;
  StateSolution all = search(problem, {}, least, start);
  return all.fits || excessOf(all.cost, problem) < excessOf(best.cost, problem)
             ? all
             : best;
}

StateSolution kiln::refineStates(const StateProblem &problem,
                                 StateSolution solution) {
  return refineLargest(problem, std::move(solution), kRefinedGroups,
                       kRefinements);
}
