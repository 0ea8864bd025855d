//===- StatePlannerTest.cpp - Shares of states on the host ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simulations of small programs are compared with figures that are computed by
// hand. For random programs, no choice beats the lower bound, and the solutions
// of the planner are compared with random choices.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/StatePlanner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

using namespace kiln;

namespace {

/// Returns a problem with one parameter of 10 bytes and 20 bytes of moments.
/// The gradient of the parameter is complete after one second, and the norm of
/// all gradients immediately afterwards. The link copies 10 bytes per second,
/// and the host takes 3 seconds for the update.
StateProblem makeOneUpdate() {
  StateProblem problem;
  problem.seconds = {1, 0, 0};
  problem.live = {10, 10, 10};
  StateGroup group;
  group.parameterBytes = group.gradientBytes = 10;
  group.momentBytes = 20;
  group.gradient = 0;
  group.update = 2;
  group.hostSeconds = 3;
  group.readers = {{0, 0}};
  problem.groups = {group};
  problem.outSecondsPerByte = problem.inSecondsPerByte = 0.1;
  problem.join = 1;
  problem.updatesLast = true;
  problem.gradientsUnderWay = problem.updatesUnderWay = 2;
  problem.capacity = problem.hostCapacity = 1000;
  return problem;
}

/// Returns a program with `layers` parameters, which the forward and the
/// backward pass read. If `joins` is true, all updates come after the command
/// that computes the norm of all gradients. Otherwise, each update comes
/// directly after the command that computes its gradient.
StateProblem makeProgram(std::mt19937_64 &random, int32_t layers, bool joins) {
  auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  StateProblem problem;
  int32_t perLayer = joins ? 1 : 2;
  int32_t end = layers + perLayer * layers + (joins ? layers + 1 : 0);
  for (int32_t c = 0; c < end; ++c)
    problem.seconds.push_back(1e-3 * double(draw(1, 20)));
  problem.live.assign(end, 500);
  problem.groups.resize(layers);
  for (int32_t i = 0; i < layers; ++i) {
    StateGroup &group = problem.groups[i];
    group.parameterBytes = group.gradientBytes = 64 * draw(1, 40);
    group.momentBytes = 2 * group.parameterBytes;
    group.gradient = layers + perLayer * (layers - 1 - i);
    group.update = joins ? 2 * layers + 1 + i : group.gradient + 1;
    group.hostSeconds = 4e-6 * double(group.parameterBytes * draw(1, 3));
    group.readers = {{i, i}, {group.gradient, group.gradient}};
    problem.seconds[group.update] = 1e-4;
    for (int32_t c = group.gradient; c <= group.update; ++c)
      problem.live[c] += group.gradientBytes;
  }
  problem.join = joins ? 2 * layers : -1;
  problem.updatesLast = joins;
  problem.outSecondsPerByte = problem.inSecondsPerByte =
      1e-6 * double(draw(1, 8));
  problem.gradientsUnderWay = problem.updatesUnderWay = 2;
  int64_t most = evaluateStates(problem, std::vector<StateChoice>(layers)).peak;
  problem.capacity = most * draw(45, 99) / 100;
  problem.hostCapacity = INT64_MAX;
  return problem;
}

/// Removes the update of a parameter, with its moments and its gradient. The
/// groups without an update must come last.
void freeze(StateProblem &problem, StateGroup &group) {
  for (int32_t c = group.gradient; c <= group.update; ++c)
    problem.live[c] -= group.gradientBytes;
  problem.seconds[group.update] = 0;
  group.momentBytes = group.gradientBytes = 0;
  group.gradient = 0;
  group.update = -1;
}

std::vector<StateChoice> drawChoices(std::mt19937_64 &random,
                                     const StateProblem &problem) {
  std::vector<StateChoice> choices;
  for (size_t i = 0; i < problem.groups.size(); ++i) {
    auto number = random() % 10;
    StateChoice choice;
    choice.update = static_cast<UpdatePlace>(number % 3);
    choice.parameterOnHost = number % 2;
    choice.gradientAway = number > 6 && choice.update != UpdatePlace::Host;
    if (problem.groups[i].update < 0)
      choice = {UpdatePlace::Device, choice.parameterOnHost, false};
    choices.push_back(choice);
  }
  return choices;
}

} // namespace

TEST(StatePlanner, EverythingOnTheDevice) {
  StateCost cost = evaluateStates(makeOneUpdate(), {{}});
  EXPECT_DOUBLE_EQ(cost.seconds, 1);
  EXPECT_EQ(cost.peak, 40);
  EXPECT_EQ(cost.hostPeak, 0);
  EXPECT_EQ(cost.copiedBytes, 0);
}

TEST(StatePlanner, UpdateOnTheHost) {
  // The gradient arrives after 2 s, the update ends after 5 s, and the updated
  // parameter is on the device after 6 s.
  StateCost cost =
      evaluateStates(makeOneUpdate(), {{UpdatePlace::Host, false, false}});
  EXPECT_DOUBLE_EQ(cost.seconds, 6);
  EXPECT_EQ(cost.peak, 20);
  EXPECT_EQ(cost.hostPeak, 40);
  EXPECT_EQ(cost.copiedBytes, 20);

  // If the device does not keep a copy of the parameter, the forward pass waits
  // until the parameter has been copied to the device.
  cost = evaluateStates(makeOneUpdate(), {{UpdatePlace::Host, true, false}});
  EXPECT_DOUBLE_EQ(cost.seconds, 6);
  EXPECT_EQ(cost.peak, 20);
  ASSERT_EQ(cost.leads.size(), 1u);
  EXPECT_EQ(cost.leads[0].parameter, std::vector<int64_t>{0});

  // If the update on the host runs on the device's queue, it does not overlap
  // with work of the device.
  StateProblem problem = makeOneUpdate();
  problem.seconds[2] = 0.5;
  problem.hostOverlaps = false;
  EXPECT_DOUBLE_EQ(
      evaluateStates(problem, {{UpdatePlace::Host, false, false}}).seconds, 6);
}

TEST(StatePlanner, MomentsOnTheHost) {
  // The moments arrive after 2 s if their copy starts at once, and the updated
  // moments are on the host after 4 s.
  StateProblem problem = makeOneUpdate();
  StateCost cost =
      evaluateStates(problem, {{UpdatePlace::Swapped, false, false}});
  EXPECT_DOUBLE_EQ(cost.seconds, 4);
  EXPECT_EQ(cost.peak, 40);
  EXPECT_EQ(cost.hostPeak, 20);
  EXPECT_EQ(cost.copiedBytes, 40);
  EXPECT_EQ(cost.leads[0].moments, std::vector<int64_t>{2});

  // If the device has no memory for the moments, their copy starts directly
  // before the update.
  problem.capacity = 30;
  cost = evaluateStates(problem, {{UpdatePlace::Swapped, false, false}});
  EXPECT_DOUBLE_EQ(cost.seconds, 5);
  EXPECT_LE(cost.leads[0].moments.front(), 1);
}

TEST(StatePlanner, GradientOnTheHost) {
  // The gradient is copied to the host, and back for the update on the device.
  StateProblem problem = makeOneUpdate();
  problem.seconds = {1, 5, 0};
  problem.capacity = 35;
  StateCost cost =
      evaluateStates(problem, {{UpdatePlace::Device, false, true}});
  EXPECT_EQ(cost.copiedBytes, 20);
  EXPECT_EQ(cost.hostPeak, 10);
  ASSERT_EQ(cost.leads[0].gradient.size(), 2u);
}

TEST(StatePlanner, CopiesOfOtherValues) {
  // The copy to the host starts after one second, and takes three.
  StateProblem problem = makeOneUpdate();
  problem.otherCopies = {{30, /*isOut=*/true, 0, 2}};
  StateCost cost = evaluateStates(problem, {{}});
  EXPECT_DOUBLE_EQ(cost.seconds, 4);
  EXPECT_EQ(cost.peak, 40);
  // The gradient is complete after the next command, and its copy waits for the
  // link. The copies and the update on the host then take 4 + 1 + 3 + 1
  // seconds. On the host, the other value is beside the gradient, the parameter
  // and its moments.
  problem.groups.front().gradient = 1;
  cost = evaluateStates(problem, {{UpdatePlace::Host, false, false}});
  EXPECT_DOUBLE_EQ(cost.seconds, 9);
  EXPECT_EQ(cost.hostPeak, 70);

  // The copy to the device may start at the beginning.
  problem.otherCopies = {{20, /*isOut=*/false, 0, 2}};
  cost = evaluateStates(problem, {{}});
  EXPECT_DOUBLE_EQ(cost.seconds, 2);
  EXPECT_EQ(cost.peak, 60);
}

TEST(StatePlanner, SharesAreSpreadEvenly) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    StateProblem problem = makeProgram(random, 40, true);
    problem.groups.back().update = -1; // A frozen parameter.
    StateShares shares = {0.25, 0.5, 0.125, 0.75};
    auto choices = spreadShares(problem.groups, shares);
    double all = 0, onHost = 0, swapped = 0, parameters = 0, largest = 0;
    for (size_t i = 0; i < choices.size(); ++i) {
      auto bytes = double(problem.groups[i].parameterBytes);
      all += bytes;
      largest = std::max(largest, bytes);
      onHost += choices[i].update == UpdatePlace::Host ? bytes : 0;
      swapped += choices[i].update == UpdatePlace::Swapped ? bytes : 0;
      parameters += choices[i].parameterOnHost ? bytes : 0;
      EXPECT_FALSE(choices[i].update == UpdatePlace::Host &&
                   choices[i].gradientAway);
      EXPECT_LE(std::abs(onHost - 0.25 * all), largest);
      EXPECT_LE(std::abs(parameters - 0.75 * all), largest);
    }
    EXPECT_LE(std::abs(swapped - 0.5 * all), 2 * largest);
    EXPECT_EQ(choices.back().update, UpdatePlace::Device);
    EXPECT_FALSE(choices.back().gradientAway);
  }
}

// Layers with parameters of three sizes. Half of their bytes are those of the
// largest size, which OverAll chooses.
TEST(StatePlanner, SharesAreSpreadWithinSizes) {
  const int64_t sizes[] = {48, 36, 12};
  std::vector<StateGroup> groups(120);
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].parameterBytes = sizes[i % 3];
    groups[i].update = 0;
  }
  StateShares shares;
  shares.moments = shares.parameters = 0.5;
  auto count = [&](Spread spread) {
    std::map<int64_t, int> swapped, parameters;
    auto choices = spreadShares(groups, shares, spread);
    for (size_t i = 0; i < groups.size(); ++i) {
      swapped[sizes[i % 3]] += choices[i].update == UpdatePlace::Swapped;
      parameters[sizes[i % 3]] += choices[i].parameterOnHost;
    }
    EXPECT_EQ(swapped, parameters);
    return swapped;
  };
  using Counts = std::map<int64_t, int>;
  EXPECT_EQ(count(Spread::OverAll), (Counts{{48, 40}, {36, 0}, {12, 0}}));
  EXPECT_EQ(count(Spread::WithinSizes), (Counts{{48, 20}, {36, 20}, {12, 20}}));
}

// The copy of the moments to the device takes 2 seconds. Memory suffices to
// start it 2 seconds before the update, but with the reserve only 1 second
// before the update, after 10 bytes have been freed.
TEST(StatePlanner, EarlyCopiesLeaveTheReserveFree) {
  StateProblem problem = makeOneUpdate();
  problem.seconds = {1, 1, 1, 1, 0};
  problem.live = {10, 20, 20, 10, 10};
  problem.join = 0;
  problem.groups[0].update = 4;
  std::vector<StateChoice> choices(1);
  choices[0].update = UpdatePlace::Swapped;
  problem.capacity = 50; // 20 live bytes, the parameter and the moments.
  StateCost cost = evaluateStates(problem, choices);
  EXPECT_EQ(cost.leads[0].moments, std::vector<int64_t>{2});
  EXPECT_EQ(cost.peak, 50);
  problem.reserve = 10;
  cost = evaluateStates(problem, choices);
  EXPECT_EQ(cost.leads[0].moments, std::vector<int64_t>{1});
  EXPECT_EQ(cost.peak, 40);
}

TEST(StatePlanner, NothingBeatsTheBound) {
  std::mt19937_64 random(5);
  int tight = 0;
  for (int round = 0; round < 120; ++round) {
    StateProblem problem = makeProgram(random, 12, round % 2);
    problem.duplex = round % 6 > 1;
    problem.hostOverlaps = round % 10 > 1;
    problem.copyLatency = round % 8 > 5 ? 1e-3 : 0;
    if (round % 9 == 8) // Updates on the host are slow.
      for (StateGroup &group : problem.groups)
        group.hostSeconds *= 100;
    for (StateGroup &group : problem.groups) {
      group.updateReads = round % 11 < 10;
      group.renewedShare = round % 13 < 12 ? 1 : 0.5;
    }
    if (round % 14 > 11)
      for (size_t i = problem.groups.size() - 3; i < problem.groups.size(); ++i)
        freeze(problem, problem.groups[i]);
    StateBound bound = boundStates(problem);
    StateSolution solution = planStates(problem);
    double best = solution.cost.seconds;
    if (solution.fits) {
      StateSolution refined = refineStates(problem, solution);
      EXPECT_TRUE(refined.fits);
      EXPECT_LE(refined.cost.seconds, best);
      EXPECT_GE(refined.cost.seconds, bound.seconds * (1 - 1e-9));
      best = refined.cost.seconds;
      tight += best <= 1.15 * bound.seconds;
    }
    double found = std::numeric_limits<double>::infinity();
    for (int trial = 0; trial < 400; ++trial) {
      StateCost cost = evaluateStates(problem, drawChoices(random, problem));
      if (cost.peak > problem.capacity)
        continue;
      EXPECT_GE(cost.seconds, bound.seconds * (1 - 1e-9)) << "round " << round;
      found = std::min(found, cost.seconds);
    }
    if (found < std::numeric_limits<double>::infinity()) {
      EXPECT_TRUE(solution.fits);
      EXPECT_LE(best, 1.02 * found) << "round " << round;
    }
  }
  EXPECT_GE(tight, 80);
}

TEST(StatePlanner, BoundsOfSmallPrograms) {
  // Everything fits, so the bound is the time of the backward pass.
  EXPECT_NEAR(boundStates(makeOneUpdate()).seconds, 1, 0.01);
  // The moments or the gradient must be copied after the norm is known. The
  // copy of the moments to the device and back takes 4 s, the update on the
  // host 5 s.
  StateProblem problem = makeOneUpdate();
  problem.capacity = 25;
  StateBound bound = boundStates(problem);
  EXPECT_GT(bound.seconds, 1.4);
  EXPECT_LE(bound.seconds, 4);
  // Nothing fits. The bound is finite.
  problem.capacity = 0;
  EXPECT_LT(boundStates(problem).seconds, 100);
  // No state, and no command.
  problem.groups.clear();
  EXPECT_NEAR(boundStates(problem).seconds, 1, 0.01);
  StateProblem empty;
  EXPECT_EQ(boundStates(empty).seconds, 0);
}

TEST(StatePlanner, KeepsEverythingThatFits) {
  std::mt19937_64 random(7);
  StateProblem problem = makeProgram(random, 10, true);
  problem.capacity = INT64_MAX / 2;
  StateSolution solution = planStates(problem);
  EXPECT_TRUE(solution.fits);
  EXPECT_EQ(solution.cost.copiedBytes, 0);
  EXPECT_DOUBLE_EQ(
      solution.cost.seconds,
      std::accumulate(problem.seconds.begin(), problem.seconds.end(), 0.0));
}

TEST(StatePlanner, MovesStatesThatFitOnRequest) {
  // The update takes 4 seconds on the device and 1 second on the host, where
  // the gradient arrives and from where the parameter returns in 1 second each.
  StateProblem problem = makeOneUpdate();
  problem.seconds = {1, 0, 4};
  problem.groups[0].hostSeconds = 1;
  EXPECT_DOUBLE_EQ(planStates(problem).cost.seconds, 5);
  problem.movesFitting = true;
  StateSolution solution = planStates(problem);
  ASSERT_TRUE(solution.fits);
  EXPECT_EQ(solution.choices[0].update, UpdatePlace::Host);
  EXPECT_DOUBLE_EQ(solution.cost.seconds, 4);
  EXPECT_GE(solution.cost.seconds, boundStates(problem).seconds);

  // If the host is slower, nothing moves.
  problem.groups[0].hostSeconds = 3;
  EXPECT_EQ(planStates(problem).cost.copiedBytes, 0);
}

TEST(StatePlanner, UsesBothTheHostAndTheLink) {
  // All eight updates are equal. The host performs one update in the time in
  // which the link copies the moments of one update to the device, so using
  // both is faster than using either alone.
  StateProblem problem;
  problem.seconds.assign(17, 1e-3);
  problem.live.assign(17, 0);
  for (int32_t i = 0; i < 8; ++i) {
    StateGroup group;
    group.parameterBytes = group.gradientBytes = 100;
    group.momentBytes = 200;
    group.gradient = i;
    group.update = 9 + i;
    group.hostSeconds = 0.2;
    group.readers = {{i, i}};
    for (int32_t c = i; c <= group.update; ++c)
      problem.live[c] += 100;
    problem.groups.push_back(group);
  }
  problem.join = 8;
  problem.updatesLast = true;
  problem.outSecondsPerByte = problem.inSecondsPerByte = 1e-3;
  problem.gradientsUnderWay = problem.updatesUnderWay = 2;
  problem.capacity = 2000;
  problem.hostCapacity = INT64_MAX;
  StateSolution solution = refineStates(problem, planStates(problem));
  ASSERT_TRUE(solution.fits);
  int64_t onHost = 0, away = 0;
  for (const StateChoice &choice : solution.choices) {
    onHost += choice.update == UpdatePlace::Host;
    away += choice.update == UpdatePlace::Swapped || choice.gradientAway;
  }
  EXPECT_GT(onHost, 0);
  EXPECT_GT(away, 0);
}

TEST(StatePlanner, TreatsLargeParametersApart) {
  // An update on the host takes longer than copying the moments, so most
  // moments should be copied to the device for the update. The moments of the
  // large parameter do not fit on the device.
  StateProblem problem;
  const int32_t count = 40;
  problem.seconds.assign(2 * count + 1, 1e-3);
  problem.live.assign(2 * count + 1, 0);
  for (int32_t i = 0; i < count; ++i) {
    StateGroup group;
    group.parameterBytes = group.gradientBytes = i == 7 ? 2000 : 100;
    group.momentBytes = 2 * group.parameterBytes;
    group.gradient = i;
    group.update = count + 1 + i;
    group.hostSeconds = 2e-4 * double(group.parameterBytes);
    group.readers = {{i, i}};
    for (int32_t c = i; c <= group.update; ++c)
      problem.live[c] += group.gradientBytes;
    problem.groups.push_back(group);
  }
  problem.join = count;
  problem.updatesLast = true;
  problem.outSecondsPerByte = problem.inSecondsPerByte = 1e-5;
  problem.gradientsUnderWay = problem.updatesUnderWay = 2;
  problem.capacity = 6000;
  problem.hostCapacity = INT64_MAX;
  StateSolution solution = planStates(problem);
  ASSERT_TRUE(solution.fits);
  EXPECT_EQ(solution.choices[7].update, UpdatePlace::Host);
  auto onHost = std::count_if(solution.choices.begin(), solution.choices.end(),
                              [](const StateChoice &choice) {
                                return choice.update == UpdatePlace::Host;
                              });
  EXPECT_LE(onHost, 15);
}

TEST(StatePlanner, SmallParametersStayOnTheDevice) {
  // The copy of a small parameter takes 0.064 ms after it has started, and the
  // start takes 1 ms.
  std::mt19937_64 random(11);
  StateProblem problem = makeProgram(random, 24, true);
  problem.copyLatency = 1e-3;
  problem.outSecondsPerByte = problem.inSecondsPerByte = 1e-6;
  auto isSmall = [](size_t i) { return i % 3 == 0; };
  for (size_t i = 0; i < problem.groups.size(); ++i) {
    StateGroup &group = problem.groups[i];
    int64_t bytes = isSmall(i) ? 64 : 64 * 200;
    for (int32_t c = group.gradient; c <= group.update; ++c)
      problem.live[c] += bytes - group.gradientBytes;
    group.parameterBytes = group.gradientBytes = bytes;
    group.momentBytes = 2 * bytes;
  }
  std::vector<StateChoice> onDevice(problem.groups.size());
  problem.capacity = evaluateStates(problem, onDevice).peak * 6 / 10;
  StateSolution solution = planStates(problem);
  ASSERT_TRUE(solution.fits);
  EXPECT_GT(solution.cost.copiedBytes, 0);
  for (size_t i = 0; i < problem.groups.size(); ++i)
    if (isSmall(i))
      EXPECT_TRUE(solution.choices[i] == StateChoice()) << i;

  // If the device has room for hardly any state, small parameters may be on the
  // host, too.
  problem.capacity = 0;
  problem.capacity =
      evaluateStates(problem,
                     std::vector<StateChoice>(problem.groups.size(),
                                              {UpdatePlace::Host, true, false}))
          .peak;
  EXPECT_TRUE(planStates(problem).fits);
}

TEST(StatePlanner, GradientsForTheHostDoNotWaitForOthers) {
  StateProblem problem;
  problem.seconds.assign(11, 1);
  problem.live.assign(11, 0);
  for (int32_t i = 0; i < 5; ++i) {
    StateGroup group;
    group.parameterBytes = group.gradientBytes = 10;
    group.gradient = i;
    group.update = 6 + i;
    group.readers = {{i, i}};
    for (int32_t c = i; c <= group.update; ++c)
      problem.live[c] += 10;
    problem.groups.push_back(group);
  }
  problem.join = 5;
  problem.updatesLast = true;
  problem.outSecondsPerByte = problem.inSecondsPerByte = 1e-3;
  problem.gradientsUnderWay = problem.updatesUnderWay = 2;
  // With a capacity of 0, copies to the device start as late as possible.
  problem.capacity = 0;
  problem.hostCapacity = 1000;
  StateChoice host = {UpdatePlace::Host, false, false};
  StateChoice away = {UpdatePlace::Device, false, true};
  // With `host` and with `away`, the gradient is copied to the host. The device
  // frees a gradient when the copies of two later gradients have started, or at
  // the update if fewer than two copies follow. For a gradient with the choice
  // `host`, only later gradients with the choice `host` count. For example, if
  // only the first two parameters have the choice `host`, their gradients stay
  // until the updates.
  auto peak = [&](std::vector<StateChoice> choices) {
    return evaluateStates(problem, choices).peak;
  };
  EXPECT_EQ(peak({away, away, away, away, away}), 50 + 30);
  EXPECT_EQ(peak({host, host, away, away, away}), 50 + 50);
}
