//===- StatePlanner.h - Shares of states on the host ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses how much of the states of a program is stored on the host, and where
// it is updated. The program is a sequence of commands on the device. For each
// parameter, there are these choices:
//
//   update on the host     the gradient is copied out, the host updates the
//                          parameter, and the new parameter is copied in
//   moments on the host    they are copied in for the update, and their new
//                          values are copied out
//   gradient on the host   it is copied out, and copied in for the update on
//                          the device
//   parameter on the host  it is copied in for each group of its readers; if
//                          the device updates it, its new value is copied out
//
// Four resources work concurrently: the device, the host, and each direction of
// the link. Which choice is fastest depends on their rates: a host with a slow
// memory makes it better to move moments, and mixing both uses all resources.
// evaluateStates() simulates the program with given choices, with copies at the
// positions at which kiln-offload-states and kiln-place-copies insert them.
// planStates() searches for the shares of the bytes of the parameters that are
// treated in each way: first on a coarse grid, then by steps of halved size.
//
// The mix of updates on the host and on the device generalizes the ratio of
// ZeRO-Offload++ (DeepSpeed's Twin-Flow), which a user sets by hand.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_PLANNER_STATEPLANNER_H
#define KILN_PLANNER_STATEPLANNER_H

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace kiln {

/// The states of one parameter. Positions are indices of commands.
struct StateGroup {
  int64_t parameterBytes = 0;
  int64_t momentBytes = 0;   ///< Bytes of all optimizer states.
  int64_t gradientBytes = 0; ///< Bytes that the gradient adds to `live`.
  int32_t gradient = 0;      ///< Command that completes the gradient.
  /// Command that updates the parameter, or -1 if it is frozen.
  int32_t update = -1;
  double hostSeconds = 0; ///< Duration of the update on the host.
  /// First and last command of each group of readers that share a copy of a
  /// parameter on the host, without the update.
  std::vector<std::pair<int32_t, int32_t>> readers;
};

struct StateProblem {
  std::vector<double> seconds; ///< Duration of every command on the device.
  std::vector<int64_t> live;   ///< Live bytes at every command, without states.
  /// In the order of the updates; frozen parameters come last.
  std::vector<StateGroup> groups;
  int64_t fixedBytes = 0; ///< Bytes of the states that stay on the device.
  /// Seconds per byte of a copy to the host and of a copy to the device.
  double outSecondsPerByte = 0, inSecondsPerByte = 0;
  double copyLatency = 0; ///< Additional seconds of every copy.
  bool duplex = true; ///< False if both directions share the link.
  /// False if updates on the host run on the device's queue.
  bool hostOverlaps = true;
  /// The command after which updates can start, such as the one that computes
  /// the norm of all gradients; -1 if each update depends only on its gradient.
  int32_t join = -1;
  /// True if all updates follow all other commands, so that updates on the
  /// device of states on the host can be moved to the end.
  bool updatesLast = false;
  /// Number of gradients that are copied to the host while later ones are
  /// computed, and number of updates on the device whose results are still
  /// being copied when the next such update starts.
  size_t gradientsUnderWay = 0, updatesUnderWay = 0;
  int64_t capacity = 0;     ///< Limit on the bytes on the device.
  int64_t hostCapacity = 0; ///< Limit on the bytes on the host.
};

enum class UpdatePlace : uint8_t {
  Device,  ///< The moments are stored and updated on the device.
  Swapped, ///< The moments are stored on the host and updated on the device.
  Host     ///< The moments are stored and updated on the host.
};

struct StateChoice {
  UpdatePlace update = UpdatePlace::Device;
  bool parameterOnHost = false;
  /// True if the gradient is on the host until the update on the device.
  bool gradientAway = false;

  bool operator==(const StateChoice &other) const {
    return update == other.update && parameterOnHost == other.parameterOnHost &&
           gradientAway == other.gradientAway;
  }
  bool operator!=(const StateChoice &other) const { return !(*this == other); }
};

/// Parts of the bytes of the parameters, from 0 to 1.
struct StateShares {
  double optimizer = 0, moments = 0, gradients = 0, parameters = 0;
};

/// The numbers of commands by which the copies of states to the device precede
/// their readers: for each group of readers, and then for the update on the
/// device.
struct StateLeads {
  std::vector<int64_t> parameter, moments;
  /// For a gradient on the host: the number of commands after which its copy to
  /// the host must be complete, and the lead of the copy back.
  std::vector<int64_t> gradient;
};

/// The figures of a program with given choices.
struct StateCost {
  double seconds = 0;            ///< Duration, including waits.
  int64_t peak = 0;              ///< Peak of the bytes on the device.
  int64_t hostPeak = 0;          ///< Peak of the bytes on the host.
  int64_t copiedBytes = 0;       ///< Bytes that are copied in both directions.
  std::vector<StateLeads> leads; ///< Indexed by group.
};

/// Where the search for a solution starts: at the solution of a similar
/// problem.
struct StateStart {
  StateShares shares;
  /// The choices of the groups that are much larger than the others.
  std::vector<StateChoice> large;
};

struct StateSolution {
  /// That of the choices before they were refined.
  StateStart start;
  std::vector<StateChoice> choices; ///< Indexed by group.
  StateCost cost;
  bool fits = false;
};

/// Spreads the shares evenly over the groups. The bytes that are selected for a
/// share up to any group differ from the share of the bytes up to it by at most
/// half a parameter, unless a parameter cannot be selected: moments of a
/// parameter that the host updates are not swapped, and a frozen parameter has
/// no update.
std::vector<StateChoice> spreadShares(const std::vector<StateGroup> &groups,
                                      const StateShares &shares);

/// Simulates the program with one choice per group.
StateCost evaluateStates(const StateProblem &problem,
                         const std::vector<StateChoice> &choices);

/// Searches for the choices with the shortest duration that fit. If none fit,
/// returns those with the smallest peak. The result is a pure function of the
/// arguments. With `start`, the search is local.
StateSolution planStates(const StateProblem &problem,
                         const std::optional<StateStart> &start = {});

/// Improves a solution by changing the choices of single groups, as long as the
/// duration becomes shorter.
StateSolution refineStates(const StateProblem &problem, StateSolution solution);

/// Lower bounds, in seconds, for a program with any choices.
struct StateBound {
  double seconds = 0; ///< On the duration.
  /// On the duration that choices add to the commands that are no updates; 0 if
  /// there is no StateProblem::join.
  double rest = 0;
  /// Duration of all updates on the device, which choices can avoid.
  double updates = 0;
};

/// Computes lower bounds.
///
/// Consider the moment after a command. The states and gradients that later
/// updates need take Y bytes more than the capacity. Let the host update some
/// groups; the bytes of all others that are on the host at this moment have to
/// be copied to the device afterwards. The rest of the program therefore takes
/// at least T seconds, where T is the smallest number such that the bytes of
/// groups that the host can update in T seconds, and the bytes that the link
/// can copy in T seconds, add up to Y. Groups may be divided, which only lowers
/// the bound. The program up to the moment takes at least the time of its
/// commands; or, if these read more bytes of parameters than fit on the device,
/// the time to copy the others.
StateBound boundStates(const StateProblem &problem);

} // namespace kiln

#endif // KILN_PLANNER_STATEPLANNER_H
