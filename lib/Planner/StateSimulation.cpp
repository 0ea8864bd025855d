//===- StateSimulation.cpp - Simulation of states on the host -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateSimulation.h"

#include "kiln/Support/EvenMerge.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace kiln;

StateSimulation::StateSimulation(const StateProblem &problem)
    : problem(problem), end(static_cast<int32_t>(problem.seconds.size())),
      byGradient(problem.groups.size()), byUpdate(problem.groups.size()) {
  std::iota(byGradient.begin(), byGradient.end(), 0);
  byUpdate = byGradient;
  auto sortBy = [&](std::vector<int32_t> &groups, int32_t StateGroup::*member) {
    std::sort(groups.begin(), groups.end(), [&](int32_t a, int32_t b) {
      return std::pair(problem.groups[a].*member, a) <
             std::pair(problem.groups[b].*member, b);
    });
  };
  sortBy(byGradient, &StateGroup::gradient);
  sortBy(byUpdate, &StateGroup::update);
  for (int32_t i : byUpdate)
    if (problem.groups[i].update >= 0)
      positions.push_back(problem.groups[i].update);
  for (const StateGroup &group : problem.groups)
    updates.push_back(group.update);
}

int32_t StateSimulation::addCopy(int64_t bytes, bool isOut, int32_t begin,
                                 int32_t wait) {
  auto index = static_cast<int32_t>(copies.size());
  copies.push_back({bytes, isOut});
  events.push_back(
      {begin + isOut, isOut ? Phase::Out : Phase::Begin, index, -1});
  bool isNow = !isOut && begin == wait;
  events.push_back({wait, isNow ? Phase::WaitNow : Phase::Wait, index, -1});
  cost.copiedBytes += bytes;
  return index;
}

/// Returns the bytes that the update of group i sends to the host if the device
/// performs the update, and 0 otherwise.
int64_t StateSimulation::returnedBytes(size_t i) const {
  const StateChoice &choice = (*choices)[i];
  const StateGroup &group = problem.groups[i];
  if (choice.update == UpdatePlace::Host || group.update < 0)
    return 0;
  return (choice.update == UpdatePlace::Swapped ? group.momentBytes : 0) +
         (choice.parameterOnHost ? group.parameterBytes : 0);
}

std::vector<int64_t> *
StateSimulation::leadsOf(size_t i, std::vector<int64_t> StateLeads::*member) {
  return recordsLeads ? &(cost.leads[i].*member) : nullptr;
}

/// If all updates follow all other commands, orders the updates as
/// kiln-offload-states does. If some updates on the device send results to the
/// host:
///   1. the updates on the host that are not in 3;
///   2. the updates on the device; those that send results to the host are
///      sorted by descending bytes, and spread evenly among the others;
///   3. the updates on the host whose gradients are copied last, directly
///      before the first update in 2 that sends results to the host.
/// If no update on the device sends results to the host, 1 and 2 are in program
/// order.
void StateSimulation::orderUpdates() {
  order.clear();
  keys.clear();
  late.clear();
  if (problem.updatesLast)
    for (size_t k = byGradient.size(); k-- > 0;) {
      if (late.size() == problem.gradientsUnderWay)
        break;
      if ((*choices)[byGradient[k]].update == UpdatePlace::Host)
        late.push_back(byGradient[k]);
    }
  bool spreads = problem.updatesLast && returnsSome;
  spreadAmong.clear();
  for (int32_t i : byUpdate) {
    int64_t bytes = spreads ? returnedBytes(i) : 0;
    if (bytes > 0)
      keys.emplace_back(-bytes, i);
    else if (spreads && problem.groups[i].update >= 0 &&
             (*choices)[i].update != UpdatePlace::Host)
      spreadAmong.push_back(i);
    else if (std::find(late.begin(), late.end(), i) == late.end())
      order.push_back(i);
  }
  // Groups with equal bytes are sorted by their index in StateProblem::groups,
  // which is the order of their updates.
  std::sort(keys.begin(), keys.end());
  std::vector<int64_t> weights, sentWeights;
  for (int32_t i : spreadAmong)
    weights.push_back(problem.groups[i].parameterBytes);
  for (auto [bytes, i] : keys)
    sentWeights.push_back(-bytes);
  auto other = spreadAmong.begin();
  auto sends = keys.begin();
  for (bool isSent : support::mergeEvenly(weights, sentWeights)) {
    if (isSent && sends == keys.begin())
      order.insert(order.end(), late.rbegin(), late.rend());
    order.push_back(isSent ? (sends++)->second : *other++);
  }
  if (keys.empty())
    order.insert(order.end(), late.rbegin(), late.rend());
  if (!problem.updatesLast)
    return;
  size_t frozen = order.size() - positions.size();
  for (size_t k = 0; k < positions.size(); ++k) {
    int32_t i = order[frozen + k];
    const StateGroup &group = problem.groups[i];
    int32_t from = group.update, to = positions[k];
    seconds[to] = problem.seconds[from];
    updates[i] = to;
    // The gradient is live until the update.
    add(from + 1, to + 1, group.gradientBytes);
  }
}

/// Adds the copies of gradients to the host, for updates on the host and for
/// gradients that are stored on the host until the device updates the
/// parameter. The program waits for a copy once `gradientsUnderWay` later
/// copies have started, and no later than the update. If the copy is for an
/// update on the host, only later copies for updates on the host count, as in
/// kiln-offload-states.
void StateSimulation::addGradients() {
  leaving.clear();
  for (int32_t i : byGradient)
    if ((*choices)[i].update == UpdatePlace::Host || (*choices)[i].gradientAway)
      leaving.push_back(i);
  auto isOnHost = [&](size_t k) {
    return (*choices)[leaving[k]].update == UpdatePlace::Host;
  };
  for (size_t i = 0; i < leaving.size(); ++i) {
    const StateGroup &group = problem.groups[leaving[i]];
    int32_t update = updates[leaving[i]], wait = update;
    size_t started = 0;
    for (size_t k = i + 1; k < leaving.size(); ++k) {
      if (isOnHost(i) && !isOnHost(k))
        continue;
      if (++started == problem.gradientsUnderWay) {
        wait = std::min(problem.groups[leaving[k]].gradient + 1, update);
        break;
      }
    }
    wait = std::max(wait, group.gradient + 1);
    int32_t copy = addCopy(group.gradientBytes, true, group.gradient, wait);
    hostChange[group.gradient] += group.gradientBytes;
    hostChange[std::max(update, group.gradient) + 1] -= group.gradientBytes;
    if ((*choices)[leaving[i]].update == UpdatePlace::Host) {
      events.push_back({update, Phase::Update, copy, leaving[i]});
      add(wait, std::max(wait, update + 1), -group.gradientBytes);
      continue;
    }
    add(wait, std::max(wait, update), -group.gradientBytes);
    std::vector<int64_t> *leads = leadsOf(leaving[i], &StateLeads::gradient);
    if (leads)
      *leads = {wait - group.gradient - 1};
    copiesIn.push_back({group.gradientBytes, update, wait, leads});
  }
}

/// Adds waits before the command `position` for the oldest copies of results,
/// until at most `left` copies are in progress.
void StateSimulation::waitForSent(int32_t position, size_t left) {
  while (sent.size() > left) {
    auto [copy, from] = sent.front();
    sent.pop_front();
    events.push_back({position, Phase::Wait, copy, -1});
    add(from, std::max(from, position), copies[copy].bytes);
  }
}

/// Adds the states of a group, and the copies that it needs.
void StateSimulation::addGroup(size_t i) {
  const StateGroup &group = problem.groups[i];
  StateChoice choice = (*choices)[i];
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
      copiesIn.push_back({group.parameterBytes, first, lastReader + 1,
                          leadsOf(i, &StateLeads::parameter)});
      lastReader = last;
      add(first, last + 1, group.parameterBytes);
    }
  }
  if (onHost) {
    if (!choice.parameterOnHost) {
      auto copy = static_cast<int32_t>(copies.size());
      auto renewed = static_cast<int64_t>(double(group.parameterBytes) *
                                          group.renewedShare);
      copies.push_back({renewed, false});
      cost.copiedBytes += renewed;
      // The copy starts after the update on the host, see execute(), and after
      // the copies for updates on the device.
      int32_t from = returnsSome ? end - 1 : std::max(update, lastReader);
      events.push_back({from + 1, Phase::Out, copy, static_cast<int32_t>(i)});
      events.push_back({end, Phase::Wait, copy, -1});
    }
    return;
  }
  if (isSwapped)
    copiesIn.push_back(
        {group.momentBytes, update, 0, leadsOf(i, &StateLeads::moments)});
  if (update >= 0 && choice.parameterOnHost && group.updateReads)
    copiesIn.push_back({group.parameterBytes, update, lastReader + 1,
                        leadsOf(i, &StateLeads::parameter)});
  int64_t returned = returnedBytes(i);
  if (returned == 0)
    return;
  waitForSent(update, problem.updatesUnderWay);
  add(update, update + 1, returned);
  auto copy = static_cast<int32_t>(copies.size());
  sent.emplace_back(copy, update + 1);
  copies.push_back({returned, true});
  cost.copiedBytes += returned;
  events.push_back({update + 1, Phase::Out, copy, -1});
}

void StateSimulation::addOtherCopies() {
  for (const OtherCopy &copy : problem.otherCopies) {
    if (copy.isOut) {
      addCopy(copy.bytes, true, copy.begin, copy.end);
      hostChange[copy.begin] += copy.bytes;
    } else {
      copiesIn.push_back({copy.bytes, copy.end, copy.begin, nullptr});
      hostChange[copy.end] -= copy.bytes;
    }
  }
}

/// Chooses the starts of the copies to the device: as late as possible without
/// making a command wait for a copy. If memory is short, a copy starts even
/// later, and commands wait for it.
void StateSimulation::placeCopiesIn() {
  auto mirror = [&](int32_t c) { return end - 1 - c; };
  // Place the copies in the reverse order of the commands that need them.
  starts.assign(static_cast<size_t>(end) + 2, 0);
  for (const CopyIn &copy : copiesIn)
    ++starts[mirror(copy.need) + 2];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  byNeed.resize(copiesIn.size());
  for (size_t i = 0; i < copiesIn.size(); ++i)
    byNeed[starts[mirror(copiesIn[i].need) + 1]++] = static_cast<int32_t>(i);
  // Compute the live bytes that result if every copy starts as early as
  // possible. placer.run() then delays the copies.
  resident.assign(change.begin(), change.end());
  transfers.clear();
  for (int32_t i : byNeed) {
    const CopyIn &copy = copiesIn[i];
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
  reversed.assign(seconds.rbegin(), seconds.rend());
  placer.run(
      reversed,
      {problem.inSecondsPerByte,
       problem.capacity - problem.reserve - cost.peak - problem.fixedBytes,
       problem.copyLatency},
      resident, transfers);
  // Start copies in program order.
  for (size_t k = byNeed.size(); k-- > 0;) {
    const CopyIn &copy = copiesIn[byNeed[k]];
    int32_t begin = std::clamp(mirror(transfers[k].gone) + 1,
                               std::min(copy.earliest, copy.need), copy.need);
    if (copy.leads)
      copy.leads->push_back(copy.need - begin);
    addCopy(copy.bytes, false, begin, copy.need);
    add(begin, copy.need, copy.bytes);
  }
}

/// Sorts the events by position and phase. Events of the same phase before the
/// same command happen in the order in which they were added.
void StateSimulation::orderEvents() {
  starts.assign(static_cast<size_t>(end) + 2, 0);
  for (const Event &event : events)
    ++starts[event.position + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  sequence.resize(events.size());
  for (const Event &event : events)
    sequence[starts[event.position]++] = event;
  // Few events happen before the same command, so insertion sort is fast.
  auto isEarlier = [](const Event &a, const Event &b) {
    return std::pair(a.position, a.phase) < std::pair(b.position, b.phase);
  };
  for (size_t i = 1; i < sequence.size(); ++i)
    for (size_t k = i; k > 0 && isEarlier(sequence[k], sequence[k - 1]); --k)
      std::swap(sequence[k], sequence[k - 1]);
}

/// Executes the commands and the events with one clock per resource.
void StateSimulation::execute() {
  orderEvents();
  updated.assign(problem.groups.size(), 0);
  double device = 0, host = 0, joined = 0, link[2] = {0, 0};
  int32_t command = 0;
  auto runUntil = [&](int32_t position) {
    for (; command < position; ++command) {
      device += seconds[command];
      if (command == problem.join)
        joined = device;
    }
  };
  auto start = [&](Copy &copy, double ready) {
    double &free = problem.duplex ? link[copy.isOut] : link[0];
    free = std::max(free, ready) + problem.copyLatency +
           double(copy.bytes) * (copy.isOut ? problem.outSecondsPerByte
                                            : problem.inSecondsPerByte);
    copy.done = free;
  };
  for (const Event &event : sequence) {
    runUntil(event.position);
    switch (event.phase) {
    case Phase::Wait:
    case Phase::WaitNow:
      device = std::max(device, copies[event.copy].done);
      break;
    case Phase::Begin:
      start(copies[event.copy], device);
      break;
    case Phase::Update: {
      // The host executes this update, in hostSeconds. The update command takes
      // no time on the device.
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

StateCost StateSimulation::run(const std::vector<StateChoice> &newChoices,
                               bool records) {
  choices = &newChoices;
  recordsLeads = records;
  cost = StateCost();
  if (recordsLeads)
    cost.leads.resize(newChoices.size());
  seconds.assign(problem.seconds.begin(), problem.seconds.end());
  change.assign(static_cast<size_t>(end) + 1, 0);
  hostChange.assign(static_cast<size_t>(end) + 1, 0);
  copies.clear();
  copiesIn.clear();
  events.clear();
  sent.clear();
  returnsSome = false;
  for (size_t i = 0; i < newChoices.size(); ++i)
    returnsSome |= returnedBytes(i) > 0;
  orderUpdates();
  addGradients();
  for (int32_t i : order)
    addGroup(i);
  waitForSent(end, 0);
  addOtherCopies();
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
  return StateSimulation(problem).run(choices, /*recordsLeads=*/true);
}

int64_t kiln::excessOf(const StateCost &cost, const StateProblem &problem) {
  return std::max<int64_t>(cost.peak - problem.capacity, 0) +
         std::max<int64_t>(cost.hostPeak - problem.hostCapacity, 0);
}
