//===- StateSimulation.h - Simulation of states on the host -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simulates a program whose states are in part on the host; see StatePlanner.h.
// The planner simulates the same program with thousands of choices. An object
// of this class computes once what does not depend on the choices, and it
// reuses the memory of its vectors in all runs.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_STATESIMULATION_H
#define KILN_LIB_PLANNER_STATESIMULATION_H

#include "LinkPlacer.h"

#include "kiln/Planner/StatePlanner.h"

#include <deque>

namespace kiln {

class StateSimulation {
public:
  /// `problem` must outlive the simulation.
  explicit StateSimulation(const StateProblem &problem);

  /// Simulates the program with one choice per group of states. Stores the
  /// leads (prefetch distances) of the copies in the result only if
  /// `recordsLeads` is true.
  StateCost run(const std::vector<StateChoice> &choices, bool recordsLeads);

private:
  /// The kinds of events between two commands, in the order in which they
  /// happen. `Out` starts a copy whose source was computed by a preceding
  /// command or by an update on the host. `Out` comes first, because it depends
  /// on no other event between these commands. `Begin` starts any other copy to
  /// the device. `WaitNow` waits for a copy that begins before the same
  /// command.
  enum class Phase : uint8_t { Out, Wait, Begin, WaitNow, Update };

  struct Event {
    int32_t position; ///< The event happens before this command.
    Phase phase;
    int32_t copy;  ///< Index of the copy, or -1.
    int32_t group; ///< Group of states that is updated on the host, or -1.
  };
  struct Copy {
    int64_t bytes = 0;
    bool isOut = false;
    double done = 0;
  };
  /// A copy of a state, a gradient or another value (OtherCopy) to the device.
  struct CopyIn {
    int64_t bytes = 0;
    int32_t need = 0;     ///< The first command that reads it.
    int32_t earliest = 0; ///< The first command before which it may start.
    /// Receives the prefetch distance (lead) of the copy, if not null.
    std::vector<int64_t> *leads = nullptr;
  };

  int32_t addCopy(int64_t bytes, bool isOut, int32_t begin, int32_t wait);
  /// Changes the live bytes at the commands in [first, last).
  void add(int32_t first, int32_t last, int64_t bytes) {
    change[first] += bytes;
    change[last] -= bytes;
  }
  int64_t returnedBytes(size_t i) const;
  std::vector<int64_t> *leadsOf(size_t i,
                                std::vector<int64_t> StateLeads::*member);
  void orderUpdates();
  void addGradients();
  void addGroup(size_t i);
  void waitForSent(int32_t position, size_t left);
  void addOtherCopies();
  void placeCopiesIn();
  void orderEvents();
  void execute();

  const StateProblem &problem;
  int32_t end;
  /// `byGradient` has the groups in the order of their gradients, and
  /// `byUpdate` has them in the order of their updates. `positions` are the
  /// commands that are updates, in ascending order.
  std::vector<int32_t> byGradient, byUpdate, positions;

  // State of the current run.
  const std::vector<StateChoice> *choices = nullptr;
  bool recordsLeads = false;
  StateCost cost;
  /// `seconds` is the duration of every command, and `updates` is the command
  /// that updates each group, after orderUpdates() has reordered the updates.
  std::vector<double> seconds;
  std::vector<int32_t> updates;
  /// The groups in the order of their updates after orderUpdates(). Frozen
  /// parameters come first.
  std::vector<int32_t> order;
  /// True if an update on the device sends results to the host.
  bool returnsSome = false;
  /// At each command, `change` is the change of the live bytes on the device,
  /// and `hostChange` is the change of the bytes of gradients and other values
  /// on the host.
  std::vector<int64_t> change, hostChange;
  std::vector<Copy> copies;
  std::vector<CopyIn> copiesIn;
  std::vector<Event> events;
  /// The events in the order in which they happen.
  std::vector<Event> sequence;
  /// The copies to the host that are in progress, oldest first. They contain
  /// results of updates on the device. Each pair is the index of a copy and the
  /// command before which the copy starts.
  std::deque<std::pair<int32_t, int32_t>> sent;

  // Scratch.
  std::vector<std::pair<int64_t, int32_t>> keys;
  std::vector<int32_t> spreadAmong, leaving, late, starts, byNeed;
  std::vector<int64_t> resident;
  std::vector<Transfer> transfers;
  std::vector<double> updated, reversed;
  LinkPlacer placer;
};

/// Returns the number of bytes that exceed the capacities of the device and of
/// the host.
int64_t excessOf(const StateCost &cost, const StateProblem &problem);

} // namespace kiln

#endif // KILN_LIB_PLANNER_STATESIMULATION_H
