//===- StatePlanner.h - Shares of states on the host ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses which states of a training program (parameters and their moments) are
// stored on the host, and where the states are updated. The program is a
// sequence of commands on the device. For each parameter, there are these
// choices, where "copied out" means to the host and "copied in" to the device:
//
//   update on the host     the gradient is copied out, the host updates the
//                          parameter, and the new parameter is copied in
//   moments on the host    the moments are copied in for the update on the
//                          device, and their new values are copied out
//   gradient on the host   the gradient is copied out, and copied in for the
//                          update on the device
//   parameter on the host  the parameter is copied in for each group of its
//                          readers; if the device updates the parameter, the
//                          new value is copied out
//
// Four resources work concurrently: the device, the host, and each direction of
// the link. The fastest choice depends on their rates: if the memory of the
// host is slow, it is faster to copy the moments than to update on the host,
// and different choices for different parameters keep all four resources busy.
// evaluateStates() simulates the program with given choices, with copies at the
// positions at which kiln-offload-states and kiln-place-copies insert them. For
// each choice, planStates() searches for the share of the parameter bytes to
// which the choice applies: first on a coarse grid, then with steps whose size
// is halved repeatedly.
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
  int64_t momentBytes = 0; ///< Bytes of all optimizer states.
  /// Bytes that the gradient adds to StateProblem::live.
  int64_t gradientBytes = 0;
  int32_t gradient = 0; ///< Command that completes the gradient.
  /// Command that updates the parameter, or -1 if it is frozen.
  int32_t update = -1;
  double hostSeconds = 0; ///< Duration of the update on the host.
  /// False if the update does not read the parameter but only a master copy,
  /// whose bytes are in momentBytes.
  bool updateReads = true;
  /// After an update on the host, the share of the parameter that is copied to
  /// the device. It is below 1 if the ranks gather their shards there.
  double renewedShare = 1;
  /// If the parameter is on the host, a group of its readers shares one copy on
  /// the device. Each pair has the first and the last command of a group. The
  /// update is in no group.
  std::vector<std::pair<int32_t, int32_t>> readers;
};

/// A copy of a value that is not a state, such as an offloaded activation. It
/// takes time on the link. The value takes memory on the host from the start of
/// its copy to the host until the end of its copy to the device.
struct OtherCopy {
  int64_t bytes = 0;
  bool isOut = false; ///< True if the value is copied to the host.
  /// The copy to the host starts after command `begin`. The copy to the device
  /// starts before command `begin` or a later one, and its value adds to
  /// StateProblem::live from its start until command `end`.
  int32_t begin = 0;
  int32_t end = 0; ///< The program waits for the copy before this command.
};

/// How spreadShares() spreads choices over the groups.
enum class Spread : uint8_t {
  OverAll,    ///< Evenly over all groups.
  WithinSizes ///< Evenly over the groups of each size.
};

struct StateProblem {
  std::vector<double> seconds; ///< Duration of every command on the device.
  std::vector<int64_t> live;   ///< Live bytes at every command, without states.
  /// The groups, each of which has one parameter and its other states. Groups
  /// with an update come first, in the order of their updates.
  std::vector<StateGroup> groups;
  std::vector<OtherCopy> otherCopies;
  int64_t fixedBytes = 0; ///< Bytes of the states that stay on the device.
  /// Seconds per byte of a copy to the host and of a copy to the device.
  double outSecondsPerByte = 0, inSecondsPerByte = 0;
  double copyLatency = 0; ///< Additional seconds of every copy.
  bool duplex = true;     ///< False if both directions share the link.
  /// False if updates on the host run on the device's queue.
  bool hostOverlaps = true;
  /// The command after which updates can start, such as the one that computes
  /// the norm of all gradients; -1 if each update depends only on its gradient.
  int32_t join = -1;
  /// True if all updates follow all other commands. The updates can then be
  /// reordered: those on the device whose results are copied to the host are
  /// spread among the other updates on the device, and follow those on the
  /// host.
  bool updatesLast = false;
  /// - gradientsUnderWay: the program waits for the copy of a gradient to the
  ///   host after the copies of this number of further gradients have started.
  /// - updatesUnderWay: before an update on the device whose results are copied
  ///   to the host, the program waits until the copies of at most this number
  ///   of earlier updates are in progress.
  size_t gradientsUnderWay = 0, updatesUnderWay = 0;
  int64_t capacity = 0;     ///< Limit on the bytes on the device.
  int64_t hostCapacity = 0; ///< Limit on the bytes on the host.
  /// Bytes of `capacity` that copies to the device leave free when they start
  /// early. In the arena, gaps between buffers use these bytes: the buffers of
  /// a phase with many copies are freed in another order than they were
  /// allocated.
  int64_t reserve = 0;
  /// How planStates() spreads choices. The layers of a program have groups of
  /// the same few sizes, so OverAll may choose groups of one size only. With
  /// WithinSizes, the gradients that are freed during the updates have the same
  /// sizes as the parameters whose states are copied to the device, so that
  /// fewer gaps remain in the arena.
  Spread spread = Spread::OverAll;
  /// True if planStates() moves states even if all states fit on the device,
  /// provided that this makes the step faster.
  bool movesFitting = false;
};

enum class UpdatePlace : uint8_t {
  Device,  ///< The moments are stored and updated on the device.
  Swapped, ///< The moments are stored on the host and updated on the device.
  Host     ///< The moments are stored and updated on the host.
};

struct StateChoice {
  UpdatePlace update = UpdatePlace::Device;
  bool parameterOnHost = false;
  /// True if the gradient is stored on the host until the update on the device.
  bool gradientAway = false;

  bool operator==(const StateChoice &other) const {
    return update == other.update && parameterOnHost == other.parameterOnHost &&
           gradientAway == other.gradientAway;
  }
  bool operator!=(const StateChoice &other) const { return !(*this == other); }
};

/// For each kind of choice, the share of the bytes of all parameters to which
/// the choice applies, from 0 to 1:
/// - optimizer: UpdatePlace::Host
/// - moments: UpdatePlace::Swapped
/// - gradients: StateChoice::gradientAway
/// - parameters: StateChoice::parameterOnHost
struct StateShares {
  double optimizer = 0, moments = 0, gradients = 0, parameters = 0;
};

/// The leads of the copies of a parameter and its other states to the device.
/// The lead of a copy is the number of commands between the start of the copy
/// and its first reader.
struct StateLeads {
  /// `parameter` has a lead for each group of readers, then a lead for the
  /// update on the device. `moments` has a lead for the update on the device.
  std::vector<int64_t> parameter, moments;
  /// Empty unless the gradient is stored on the host until the update on the
  /// device. Then it has two elements:
  /// - the number of commands between the command that completes the gradient
  ///   and the first command that waits for the copy of the gradient to the
  ///   host
  /// - the lead (prefetch distance) of the copy of the gradient to the device
  std::vector<int64_t> gradient;
};

/// The simulated time and memory of a program with given choices.
struct StateCost {
  double seconds = 0;            ///< Duration, including waits.
  int64_t peak = 0;              ///< Peak of the bytes on the device.
  int64_t hostPeak = 0;          ///< Peak of the bytes on the host.
  int64_t copiedBytes = 0;       ///< Bytes that are copied in both directions.
  std::vector<StateLeads> leads; ///< Indexed as StateProblem::groups.
};

/// The point from which a local search starts, which is the solution of a
/// similar problem.
struct StateStart {
  StateShares shares;
  /// The choices of the groups of states that are much larger than the others.
  std::vector<StateChoice> large;
};

struct StateSolution {
  /// A point from which the search for a solution of a similar problem can
  /// start. It describes `choices` as they were before the search changed the
  /// choices of groups one at a time.
  StateStart start;
  std::vector<StateChoice> choices; ///< Indexed as StateProblem::groups.
  StateCost cost;
  bool fits = false;
};

/// Applies each kind of choice to its share of the parameter bytes, spread
/// evenly over the groups. For any n, if the first n groups have b parameter
/// bytes, a choice with the share s applies to s * b of these bytes, up to a
/// difference of half of the size of the largest parameter. With
/// Spread::WithinSizes, this holds for the groups of each size. The difference
/// is larger only if a choice is impossible for a group:
///   - A frozen parameter has no update.
///   - If the host updates a parameter, its moments are not swapped, and its
///     gradient is not stored on the host for later.
std::vector<StateChoice> spreadShares(const std::vector<StateGroup> &groups,
                                      const StateShares &shares,
                                      Spread spread = Spread::OverAll);

/// Simulates the program with one choice per group of states.
StateCost evaluateStates(const StateProblem &problem,
                         const std::vector<StateChoice> &choices);

/// Searches for the choices that fit in memory and have the shortest duration.
/// If none fit, returns the choices that exceed the capacities of device and
/// host by the fewest bytes. The result is a pure function of the arguments. If
/// `start` is given, the search is local and begins there.
StateSolution planStates(const StateProblem &problem,
                         const std::optional<StateStart> &start = {});

/// Improves a solution by changing the choices of single groups of states, as
/// long as the duration becomes shorter.
StateSolution refineStates(const StateProblem &problem, StateSolution solution);

/// Lower bounds, in seconds, that hold for all choices.
struct StateBound {
  double seconds = 0; ///< Lower bound on the duration of the program.
  /// Lower bound on the time that copies and updates add to the time of the
  /// other commands after StateProblem::join, the command that all updates wait
  /// for; 0 if there is no such command.
  ///
  /// After this command, the states and gradients that the updates need take Y
  /// bytes more than the capacity, so at least Y of these bytes are on the
  /// host. The host then updates some groups, and the bytes of the other groups
  /// are copied to the device. This takes at least T seconds, where T is the
  /// smallest number such that the bytes of groups that the host can update in
  /// T seconds, and the bytes that the link can copy in T seconds, add up to Y.
  /// Groups may be divided, which only lowers the bound.
  double rest = 0;
  /// Sum of the durations of all updates on the device. A choice can avoid this
  /// time by updating on the host.
  double updates = 0;
};

/// Computes the lower bounds of StateBound, which hold for every choice of the
/// states on the host. StateRelaxation.h in lib/Planner describes the method.
StateBound boundStates(const StateProblem &problem);

} // namespace kiln

#endif // KILN_PLANNER_STATEPLANNER_H
