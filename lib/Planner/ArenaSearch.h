//===- ArenaSearch.h - Exact search for arena offsets -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides by depth-first search whether a problem fits into a capacity. It
// suffices to examine *canonical* placements, in which every item is at offset
// 0 or directly above another item: moving items down turns any placement into
// a canonical one of at most the same height. Canonical placements, sections
// and splitting in time are from M. D. Moffitt, "MiniMalloc", ASPLOS 2023 vol.
// 4.
//
// The *floor* of an unplaced item is the lowest offset above all placed items
// in its sections. A node selects the item x with the lowest floor f; ties are
// broken by the *key order* of the run, in which preferred items come first. In
// a canonical placement, x either
//
//   1. is at f. Then no unplaced neighbour fits below x, because no floor is
//      lower. All unplaced neighbours are then above x, and their floors rise
//      to the top of x; or
//   2. is directly above a neighbour that is still unplaced. Then x *sleeps*:
//      it is not tried again until its floor has risen.
//
// Sleeping keeps the search tree small. Whether x sleeps depends only on x and
// its neighbours, so the search does not repeat independent placements in
// another order. A node is refuted if bounds prove that it has no solution.
// Sleeping strengthens these bounds:
//
//   - `bounds`: a sleeping item starts at or above the lowest top that any
//     unplaced neighbour can have; any other item starts at or above its floor.
//   - The unplaced items of a section (which are live at the same time) do not
//     overlap, so they are like jobs on a machine that runs one job at a time:
//     the size of an item is the duration of the job, and the bound is the
//     release date. Running the jobs in the order of their release dates gives
//     the earliest end, which must not exceed the capacity.
//
// After a placement, the unplaced items may fall into parts that share no
// section. The parts are solved one after the other. A part without a solution
// refutes the placement regardless of the other parts.
//
// The run time of such a search has a heavy-tailed distribution over key orders
// (orders of preference of the items), so the search consists of many short
// runs of slowly growing length. Sections that refute nodes gain weight, and
// later runs prefer the items of heavy sections.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_ARENASEARCH_H
#define KILN_LIB_PLANNER_ARENASEARCH_H

#include "ArenaProblem.h"

namespace kiln::arena {

class ArenaSearch {
public:
  explicit ArenaSearch(const Problem &problem);

  enum class Outcome { Fits, Infeasible, Unknown };
  /// Searches for a placement of at most height `capacity` until `effort` is
  /// spent.
  Outcome fit(int64_t capacity, Effort &effort);
  /// Returns the placement found by the last call that returned Fits.
  const Placement &placement() const { return found; }
  uint64_t nodes() const { return totalNodes; }

private:
  /// A connected component of the conflict graph of the unplaced items, stored
  /// as a range of `pool`.
  struct Part {
    size_t begin, end;
  };
  /// A node of the search, with the stack sizes needed to undo it.
  struct Frame {
    Part part;
    /// The item that the node places. If the placement is refuted, the node
    /// selects another item. It does not try this one again until the floor of
    /// the item, its lowest offset above the placed items, has risen.
    int32_t item;
    size_t trailMark, placedMark, poolMark, partsMark;
  };
  struct Change {
    int32_t item;
    int64_t floor, bound, sleepFloor;
  };

  /// Returns the items in the order in which the given run of the search
  /// prefers them, most preferred first.
  std::vector<int32_t> makeOrder(unsigned run);
  void setOrder(std::vector<int32_t> order);
  Outcome runOnce(uint64_t nodeLimit, Effort &effort);
  void keepPlacement();

  void openFrame(Part part);
  int32_t choose(const Frame &frame);
  bool place(const Frame &frame, int32_t item);
  bool sleep(const Frame &frame, int32_t item);
  void split(const Frame &frame, int32_t item);
  void undo(const Frame &frame);

  void startPropagation();
  bool propagate(const Frame &frame);
  bool raiseSleeping(const Frame &frame, int32_t item);
  void raiseBound(int32_t item, int64_t bound);
  void touch(const Item &item);
  bool sectionFits(int32_t section);

  void record(int32_t item) {
    trail.push_back({item, floors[item], bounds[item], sleepFloors[item]});
  }
  bool isAsleep(int32_t item) const {
    return sleepFloors[item] == floors[item];
  }
  /// Returns true if the previous item is equal to this item and is unplaced.
  /// Equal items are interchangeable, so they are placed in the order of their
  /// indexes.
  bool waitsForTwin(int32_t item) const {
    return hasTwin[item] && !isPlaced[item - 1];
  }

  const Problem &problem;
  const int32_t numItems, numSections;
  int64_t capacity = 0;
  uint64_t totalNodes = 0;
  uint64_t steps = 0; ///< Steps that Effort::spend() has not counted yet.
  Placement found;
  /// For each section (a set of items that are live together), how many nodes
  /// were refuted because these items did not fit. Older runs count less.
  std::vector<double> weights;

  // State of the current run. Items are indexed by their rank in the key order
  // of the run, so that keys are compared by comparing indices.
  std::vector<int32_t> itemOfRank;
  std::vector<Item> items;
  /// True if the item is equal to the item of the previous rank.
  std::vector<uint8_t> hasTwin;
  /// The items of section s are sectionItems[sectionBegin[s]] to
  /// sectionItems[sectionBegin[s + 1] - 1].
  std::vector<size_t> sectionBegin;
  std::vector<int32_t> sectionItems;

  // Search state per item and per section.
  std::vector<int64_t> floors, bounds, offsets;
  /// The value of `floors` when the item was last put to sleep (not to be tried
  /// until its floor has risen).
  std::vector<int64_t> sleepFloors;
  std::vector<uint8_t> isPlaced;
  std::vector<int64_t> unplacedSize;
  /// Number of unplaced items in both sections s - 1 and s.
  std::vector<int32_t> crossing;
  std::vector<Change> trail;
  std::vector<int32_t> placed;

  // Stacks. Each frame owns a range of each stack.
  std::vector<Frame> frames;
  std::vector<int32_t> pool;
  std::vector<Part> parts; ///< Sets of items still to be placed.

  // Propagation of bounds: the sections to check, and the range of sections
  // that contain items whose bounds have risen.
  std::vector<int32_t> touched;
  std::vector<uint32_t> touchStamps;
  uint32_t stamp = 0;
  int32_t changedFirst = 0, changedLast = 0;
  std::vector<std::pair<int64_t, int64_t>> jobs;
};

} // namespace kiln::arena

#endif // KILN_LIB_PLANNER_ARENASEARCH_H
