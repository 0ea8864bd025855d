//===- StatePlanner.cpp - Shares of states on the host --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/StatePlanner.h"

#include "LinkPlacer.h"

#include "kiln/Support/ShareSelector.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

using namespace kiln::support;
using namespace kiln;

/// Numerators of the shares that planStates() tries: multiples of 1 / kShares.
/// The coarse grid has steps of kCoarse / kShares.
static constexpr int kShares = 256, kCoarse = 32;
/// Number of points of the coarse grid from which the search continues.
static constexpr size_t kStarts = 8;
/// The cost of a byte that does not fit, in copies to the host and back. The
/// high penalty applies if no point fits with the other one.
static constexpr double kPenalty = 4, kHighPenalty = 1000;
/// Number of groups that refineStates() changes, and of its passes over them.
static constexpr size_t kRefinedGroups = 512;
static constexpr int kRefinements = 10;

std::vector<StateChoice>
kiln::spreadShares(const std::vector<StateGroup> &groups,
                   const StateShares &shares) {
  ShareSelector optimizer(shares.optimizer), moments(shares.moments),
      gradients(shares.gradients), parameters(shares.parameters);
  std::vector<StateChoice> choices;
  for (const StateGroup &group : groups) {
    StateChoice &choice = choices.emplace_back();
    choice.parameterOnHost = parameters.select(group.parameterBytes);
    if (group.update < 0)
      continue;
    if (optimizer.select(group.parameterBytes))
      choice.update = UpdatePlace::Host;
    if (moments.select(group.parameterBytes,
                       choice.update == UpdatePlace::Device))
      choice.update = UpdatePlace::Swapped;
    choice.gradientAway = gradients.select(group.parameterBytes,
                                           choice.update != UpdatePlace::Host);
  }
  return choices;
}

namespace {

/// What happens between two commands, in this order. `WaitNow` waits for a copy
/// that begins before the same command.
enum class Phase : uint8_t { Wait, Begin, WaitNow, Update, Out };

/// An event before command `position`, or, for Phase::Out, after it.
struct Event {
  int32_t position;
  Phase phase;
  int32_t copy;  ///< Index of the copy, or -1.
  int32_t group; ///< Group that is updated on the host, or -1.

  /// Returns a number that orders events in time. Events with equal numbers
  /// happen in the order in which they were added.
  uint64_t key() const {
    bool isAfter = phase == Phase::Out;
    return (static_cast<uint64_t>(position + isAfter) << 3 |
            static_cast<uint64_t>(!isAfter) << 2 |
            static_cast<uint64_t>(phase) % 4)
           << 24;
  }
};

struct Copy {
  int64_t bytes = 0;
  bool isOut = false;
  double done = 0;
};

/// A copy of a state to the device.
struct CopyIn {
  int64_t bytes = 0;
  int32_t need = 0;     ///< The first command that reads it.
  int32_t earliest = 0; ///< The first command before which it may start.
  std::vector<int64_t> *leads = nullptr; ///< Receives the lead.
  size_t number = 0; ///< In the order in which the copies are found.
};

class Simulation {
public:
  Simulation(const StateProblem &problem,
             const std::vector<StateChoice> &choices)
      : problem(problem), choices(choices),
        end(static_cast<int32_t>(problem.seconds.size())),
        seconds(problem.seconds), change(problem.seconds.size() + 1, 0),
        hostChange(problem.seconds.size() + 1, 0) {
    for (const StateGroup &group : problem.groups)
      updates.push_back(group.update);
  }
  StateCost run();

private:
  int32_t addCopy(int64_t bytes, bool isOut, int32_t begin, int32_t wait);
  /// Changes the live bytes at the commands in [first, last).
  void add(int32_t first, int32_t last, int64_t bytes) {
    change[first] += bytes;
    change[last] -= bytes;
  }
  int64_t returnedBytes(size_t i) const;
  void orderUpdates();
  void addGradients();
  void addGroups();
  void placeCopiesIn();
  void execute();

  const StateProblem &problem;
  const std::vector<StateChoice> &choices;
  int32_t end;
  /// Duration of every command, and the command that updates each group, in the
  /// order of updates that orderUpdates() chooses.
  std::vector<double> seconds;
  std::vector<int32_t> updates;
  /// True if an update on the device sends results to the host.
  bool returnsSome = false;
  /// Changes of the bytes on the device, and of the gradients on the host.
  std::vector<int64_t> change, hostChange;
  std::vector<Copy> copies;
  std::vector<CopyIn> copiesIn;
  std::vector<Event> events;
  StateCost cost;
};

} // namespace

int32_t Simulation::addCopy(int64_t bytes, bool isOut, int32_t begin,
                            int32_t wait) {
  auto index = static_cast<int32_t>(copies.size());
  copies.push_back({bytes, isOut});
  events.push_back({begin, isOut ? Phase::Out : Phase::Begin, index, -1});
  bool isNow = !isOut && begin == wait;
  events.push_back({wait, isNow ? Phase::WaitNow : Phase::Wait, index, -1});
  cost.copiedBytes += bytes;
  return index;
}

/// Returns the bytes that the update of a group on the device sends to the
/// host.
int64_t Simulation::returnedBytes(size_t i) const {
  const StateChoice &choice = choices[i];
  const StateGroup &group = problem.groups[i];
  if (choice.update == UpdatePlace::Host || group.update < 0)
    return 0;
  return (choice.update == UpdatePlace::Swapped ? group.momentBytes : 0) +
         (choice.parameterOnHost ? group.parameterBytes : 0);
}

/// Moves the updates on the device of states on the host after all other
/// updates, the largest first, as kiln-offload-states does.
void Simulation::orderUpdates() {
  if (!problem.updatesLast)
    return;
  std::vector<size_t> order;
  for (size_t i = 0; i < choices.size(); ++i)
    if (updates[i] >= 0)
      order.push_back(i);
  std::vector<int32_t> positions;
  for (size_t i : order)
    positions.push_back(updates[i]);
  auto key = [&](size_t i) {
    int64_t bytes = returnedBytes(i);
    return std::tuple(bytes > 0, -bytes, problem.groups[i].update, i);
  };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return key(a) < key(b); });
  std::sort(positions.begin(), positions.end());
  for (size_t k = 0; k < order.size(); ++k) {
    const StateGroup &group = problem.groups[order[k]];
    int32_t from = group.update, to = positions[k];
    seconds[to] = problem.seconds[from];
    updates[order[k]] = to;
    // The gradient is live until the update.
    add(from + 1, to + 1, group.gradientBytes);
  }
}

/// Copies the gradients of the updates on the host, and those that are away.
/// The copy of a gradient is waited for when `gradientsUnderWay` further copies
/// have started, and no later than by its update.
void Simulation::addGradients() {
  std::vector<int32_t> leaving;
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i].update == UpdatePlace::Host || choices[i].gradientAway)
      leaving.push_back(static_cast<int32_t>(i));
  std::sort(leaving.begin(), leaving.end(), [&](int32_t a, int32_t b) {
    return std::pair(problem.groups[a].gradient, a) <
           std::pair(problem.groups[b].gradient, b);
  });
  for (size_t i = 0; i < leaving.size(); ++i) {
    const StateGroup &group = problem.groups[leaving[i]];
    int32_t update = updates[leaving[i]];
    size_t later = i + static_cast<size_t>(problem.gradientsUnderWay);
    int32_t wait =
        later < leaving.size()
            ? std::min(problem.groups[leaving[later]].gradient + 1, update)
            : update;
    wait = std::max(wait, group.gradient + 1);
    int32_t copy = addCopy(group.gradientBytes, true, group.gradient, wait);
    hostChange[group.gradient] += group.gradientBytes;
    hostChange[std::max(update, group.gradient) + 1] -= group.gradientBytes;
    if (choices[leaving[i]].update == UpdatePlace::Host) {
      events.push_back({update, Phase::Update, copy, leaving[i]});
      add(wait, std::max(wait, update + 1), -group.gradientBytes);
      continue;
    }
    add(wait, std::max(wait, update), -group.gradientBytes);
    std::vector<int64_t> &leads = cost.leads[leaving[i]].gradient;
    leads = {wait - group.gradient - 1};
    copiesIn.push_back({group.gradientBytes, update, wait, &leads});
  }
}

void Simulation::addGroups() {
  // Copies of results of updates on the device, oldest first, and the commands
  // after which they start.
  std::deque<std::pair<int32_t, int32_t>> sent;
  auto waitForSent = [&](int32_t position, size_t left) {
    while (sent.size() > left) {
      auto [copy, from] = sent.front();
      sent.pop_front();
      events.push_back({position, Phase::Wait, copy, -1});
      add(from, std::max(from, position), copies[copy].bytes);
    }
  };
  std::vector<size_t> order(choices.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(updates[a], a) < std::pair(updates[b], b);
  });
  for (size_t i : order) {
    const StateGroup &group = problem.groups[i];
    StateChoice choice = choices[i];
    StateLeads &leads = cost.leads[i];
    int32_t update = updates[i];
    bool onHost = choice.update == UpdatePlace::Host;
    bool isSwapped = choice.update == UpdatePlace::Swapped;
    (choice.update == UpdatePlace::Device ? cost.peak : cost.hostPeak) +=
        group.momentBytes;
    if (onHost || choice.parameterOnHost)
      cost.hostPeak += group.parameterBytes;
    int32_t lastReader = -1;
    if (!choice.parameterOnHost) {
      cost.peak += group.parameterBytes;
      for (auto [first, last] : group.readers)
        lastReader = std::max(lastReader, last);
    } else {
      for (auto [first, last] : group.readers) {
        copiesIn.push_back(
            {group.parameterBytes, first, lastReader + 1, &leads.parameter});
        lastReader = last;
        add(first, last + 1, group.parameterBytes);
      }
    }
    if (onHost) {
      if (!choice.parameterOnHost) {
        auto copy = static_cast<int32_t>(copies.size());
        copies.push_back({group.parameterBytes, false});
        cost.copiedBytes += group.parameterBytes;
        // The copy starts after the update on the host, see execute(), and
        // after the copies for updates on the device.
        int32_t from = returnsSome ? end - 1 : std::max(update, lastReader);
        events.push_back({from, Phase::Out, copy, static_cast<int32_t>(i)});
        events.push_back({end, Phase::Wait, copy, -1});
      }
      continue;
    }
    if (isSwapped)
      copiesIn.push_back({group.momentBytes, update, 0, &leads.moments});
    if (update >= 0 && choice.parameterOnHost) {
      copiesIn.push_back(
          {group.parameterBytes, update, lastReader + 1, &leads.parameter});
    }
    int64_t returned = returnedBytes(i);
    if (returned == 0)
      continue;
    waitForSent(update, problem.updatesUnderWay);
    add(update, update + 1, returned);
    auto copy = static_cast<int32_t>(copies.size());
    sent.emplace_back(copy, update + 1);
    copies.push_back({returned, true});
    cost.copiedBytes += returned;
    events.push_back({update, Phase::Out, copy, -1});
  }
  waitForSent(end, 0);
}

/// Chooses the starts of the copies to the device: as late as the link allows,
/// and later if memory is short.
void Simulation::placeCopiesIn() {
  auto mirror = [&](int32_t c) { return end - 1 - c; };
  for (size_t i = 0; i < copiesIn.size(); ++i)
    copiesIn[i].number = i;
  std::sort(
      copiesIn.begin(), copiesIn.end(), [](const CopyIn &a, const CopyIn &b) {
        return std::pair(-a.need, a.number) < std::pair(-b.need, b.number);
      });
  // Initially, every copy is on the device as early as possible.
  std::vector<int64_t> resident(change);
  std::vector<Transfer> transfers;
  for (const CopyIn &copy : copiesIn) {
    resident[std::min(copy.earliest, copy.need)] += copy.bytes;
    resident[copy.need] -= copy.bytes;
    int32_t limit = mirror(std::min(copy.earliest, copy.need)) + 1;
    transfers.push_back(
        {copy.bytes, mirror(copy.need), mirror(copy.need), limit, limit});
  }
  std::partial_sum(resident.begin(), resident.end(), resident.begin());
  resident.pop_back();
  for (int32_t c = 0; c < end; ++c)
    resident[c] += problem.live[c];
  std::reverse(resident.begin(), resident.end());
  std::vector<double> reversed(seconds.rbegin(), seconds.rend());
  LinkPlacer(reversed, problem.inSecondsPerByte,
             problem.capacity - cost.peak - problem.fixedBytes)
      .run(std::move(resident), transfers);
  // Start copies in program order.
  for (size_t i = copiesIn.size(); i-- > 0;) {
    const CopyIn &copy = copiesIn[i];
    int32_t begin = std::clamp(mirror(transfers[i].gone) + 1,
                               std::min(copy.earliest, copy.need), copy.need);
    copy.leads->push_back(copy.need - begin);
    addCopy(copy.bytes, false, begin, copy.need);
    add(begin, copy.need, copy.bytes);
  }
}

/// Executes the commands and the events with one clock per resource.
void Simulation::execute() {
  std::vector<uint64_t> sequence(events.size());
  for (size_t i = 0; i < events.size(); ++i)
    sequence[i] = events[i].key() | i;
  std::sort(sequence.begin(), sequence.end());
  std::vector<double> updated(problem.groups.size(), 0);
  double device = 0, host = 0, joined = 0, link[2] = {0, 0};
  int32_t command = 0;
  auto runUntil = [&](int32_t position) {
    for (; command < std::min(position, end); ++command) {
      device += seconds[command];
      if (command == problem.join)
        joined = device;
    }
  };
  auto start = [&](Copy &copy, double ready) {
    double &free = problem.duplex ? link[copy.isOut] : link[0];
    free = std::max(free, ready) +
           double(copy.bytes) * (copy.isOut ? problem.outSecondsPerByte
                                            : problem.inSecondsPerByte);
    copy.done = free;
  };
  for (uint64_t index : sequence) {
    const Event &event = events[index & 0xffffff];
    runUntil(event.position + (event.phase == Phase::Out));
    switch (event.phase) {
    case Phase::Wait:
    case Phase::WaitNow:
      device = std::max(device, copies[event.copy].done);
      break;
    case Phase::Begin:
      start(copies[event.copy], device);
      break;
    case Phase::Update: {
      // The command takes no time on the device.
      const StateGroup &group = problem.groups[event.group];
      seconds[event.position] = 0;
      double &clock = problem.hostOverlaps ? host : device;
      clock = std::max({clock, joined, copies[event.copy].done}) +
              group.hostSeconds;
      updated[event.group] = clock;
      break;
    }
    case Phase::Out:
      start(copies[event.copy],
            std::max(device, event.group < 0 ? 0.0 : updated[event.group]));
      break;
    }
  }
  runUntil(end);
  cost.seconds = std::max(device, host);
}

StateCost Simulation::run() {
  cost.leads.resize(choices.size());
  for (size_t i = 0; i < choices.size(); ++i)
    returnsSome |= returnedBytes(i) > 0;
  orderUpdates();
  addGradients();
  addGroups();
  placeCopiesIn();
  execute();
  std::partial_sum(change.begin(), change.end(), change.begin());
  int64_t most = 0;
  for (int32_t c = 0; c < end; ++c)
    most = std::max(most, problem.live[c] + change[c]);
  cost.peak += most + problem.fixedBytes;
  std::partial_sum(hostChange.begin(), hostChange.end(), hostChange.begin());
  cost.hostPeak += *std::max_element(hostChange.begin(), hostChange.end());
  return std::move(cost);
}

StateCost kiln::evaluateStates(const StateProblem &problem,
                               const std::vector<StateChoice> &choices) {
  return Simulation(problem, choices).run();
}

/// Returns the bytes that do not fit.
static int64_t excessOf(const StateCost &cost, const StateProblem &problem) {
  return std::max<int64_t>(cost.peak - problem.capacity, 0) +
         std::max<int64_t>(cost.hostPeak - problem.hostCapacity, 0);
}

namespace {

/// Numerators of StateShares.
using Point = std::array<int, 4>;

/// The solutions that planStates() has evaluated.
class Search {
public:
  explicit Search(const StateProblem &problem) : problem(problem) {}
  StateSolution run(const std::optional<StateShares> &start);

private:
  /// The figures of a point.
  struct Outcome {
    double seconds;
    int64_t copiedBytes;
    int64_t excess; ///< Bytes that do not fit.
  };
  /// The duration with a penalty for each byte that does not fit, and the bytes
  /// that are copied.
  using Key = std::pair<double, int64_t>;

  Key keyOf(const Outcome &outcome) const {
    return {outcome.seconds + penalty * double(outcome.excess),
            outcome.copiedBytes};
  }
  void visit(Point point);
  void climb(int step);
  StateSolution solutionOf(const Point &point) const;

  const StateProblem &problem;
  std::map<Point, Outcome> outcomes;
  double penalty = 0;
  Point best = {0, 0, 0, 0};
  /// The fastest point that fits, and the point that exceeds the capacities by
  /// the fewest bytes.
  std::optional<std::pair<Key, Point>> fitting;
  std::pair<int64_t, Point> least = {INT64_MAX, {}};
};

} // namespace

static StateShares sharesOf(const Point &point) {
  return {double(point[0]) / kShares, double(point[1]) / kShares,
          double(point[2]) / kShares, double(point[3]) / kShares};
}

/// Evaluates a point, if that is not done yet, and moves to it if it is better.
void Search::visit(Point point) {
  for (int part : point)
    if (part < 0 || part > kShares)
      return;
  if (point[0] + point[1] > kShares || point[0] + point[2] > kShares)
    return;
  auto [it, isNew] = outcomes.try_emplace(point);
  Outcome &outcome = it->second;
  if (isNew) {
    StateCost cost =
        evaluateStates(problem, spreadShares(problem.groups, sharesOf(point)));
    outcome = {cost.seconds, cost.copiedBytes, excessOf(cost, problem)};
    least = std::min(least, {outcome.excess, point});
    if (outcome.excess == 0 && (!fitting || keyOf(outcome) < fitting->first))
      fitting = {keyOf(outcome), point};
  }
  if (keyOf(outcome) < keyOf(outcomes.at(best)))
    best = point;
}

StateSolution Search::solutionOf(const Point &point) const {
  StateSolution solution;
  solution.shares = sharesOf(point);
  solution.choices = spreadShares(problem.groups, solution.shares);
  solution.cost = evaluateStates(problem, solution.choices);
  solution.fits = fitting.has_value();
  return solution;
}

/// Moves to better points that differ by `step` in up to three shares.
void Search::climb(int step) {
  for (Point center = {-1, 0, 0, 0}; center != best;) {
    center = best;
    // Each digit of `code` to the base 3 is the direction of one share.
    for (int code = 0; code < 81; ++code) {
      Point point = center;
      int moved = 0;
      for (int i = 0, rest = code; i < 4; ++i, rest /= 3) {
        point[i] += (rest % 3 - 1) * step;
        moved += rest % 3 != 1;
      }
      if (moved <= 3)
        visit(point);
    }
  }
}

StateSolution Search::run(const std::optional<StateShares> &start) {
  visit(best);
  if (fitting)
    return solutionOf(best);
  // A byte that does not fit costs more than its copies would, so that the
  // search can pass points that do not fit.
  double perByte = problem.outSecondsPerByte + problem.inSecondsPerByte;
  penalty = kPenalty * perByte;
  auto numerator = [](double share) {
    return static_cast<int>(share * kShares + 0.5);
  };
  std::vector<Point> bases;
  if (start) {
    bases = {{numerator(start->optimizer), numerator(start->moments),
              numerator(start->gradients), numerator(start->parameters)}};
    visit(bases.front());
  } else {
    for (int optimizer = 0; optimizer <= kShares; optimizer += kCoarse)
      for (int moments = 0; optimizer + moments <= kShares; moments += kCoarse)
        for (int gradients = 0; optimizer + gradients <= kShares;
             gradients += kCoarse)
          for (int parameters = 0; parameters <= kShares;
               parameters += kCoarse) {
            Point point = {optimizer, moments, gradients, parameters};
            visit(point);
            bases.push_back(point);
          }
    // Different points of the coarse grid lead to different optima.
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

StateSolution kiln::planStates(const StateProblem &problem,
                               const std::optional<StateShares> &start) {
  return Search(problem).run(start);
}

//===----------------------------------------------------------------------===//
// Refinement
//===----------------------------------------------------------------------===//

StateSolution kiln::refineStates(const StateProblem &problem,
                                 StateSolution solution) {
  auto keyOf = [&](const StateCost &cost) {
    return std::tuple(excessOf(cost, problem), cost.seconds, cost.copiedBytes);
  };
  std::vector<size_t> bySize(problem.groups.size());
  std::iota(bySize.begin(), bySize.end(), 0);
  std::sort(bySize.begin(), bySize.end(), [&](size_t a, size_t b) {
    return std::pair(-problem.groups[a].parameterBytes, a) <
           std::pair(-problem.groups[b].parameterBytes, b);
  });
  bySize.resize(std::min(bySize.size(), kRefinedGroups));
  for (int pass = 0; pass < kRefinements; ++pass) {
    bool isBetter = false;
    for (size_t i : bySize)
      for (UpdatePlace update :
           {UpdatePlace::Device, UpdatePlace::Swapped, UpdatePlace::Host})
        for (int bits = 0; bits < 4; ++bits) {
          bool parameterOnHost = bits & 1, gradientAway = bits & 2;
          StateChoice before = solution.choices[i];
          bool isFrozen = problem.groups[i].update < 0;
          if ((isFrozen && (update != UpdatePlace::Device || gradientAway)) ||
              (update == UpdatePlace::Host && gradientAway) ||
              (before.update == update && before.gradientAway == gradientAway &&
               before.parameterOnHost == parameterOnHost))
            continue;
          solution.choices[i] = {update, parameterOnHost, gradientAway};
          StateCost cost = evaluateStates(problem, solution.choices);
          if (keyOf(cost) < keyOf(solution.cost)) {
            solution.cost = std::move(cost);
            isBetter = true;
          } else {
            solution.choices[i] = before;
          }
        }
    if (!isBetter)
      break;
  }
  solution.fits = excessOf(solution.cost, problem) == 0;
  return solution;
}
