//===- ArenaSearch.h - Exact search for arena offsets -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides whether a problem fits into a capacity, by depth-first search. It is
// enough to look at *canonical* placements, in which every item rests on the
// bottom or on another item: any placement becomes one, no higher, by letting
// items drop. (Canonical placements, sections and splitting in time are from
// M. D. Moffitt, "MiniMalloc", ASPLOS 2023 vol. 4.)
//
// The *floor* of an unplaced item is the lowest offset above everything placed
// in its sections. A node takes the item x with the lowest floor f, ties by the
// key order of the run. In a canonical placement x either
//
//   1. is at f. No unplaced neighbour fits below it, because none has a lower
//      floor, so all of them are above x and their floors rise to its top; or
//   2. rests on a neighbour that is still unplaced. Then x *sleeps*: it is not
//      tried again before its floor has risen.
//
// Sleeping is what keeps the tree small. It is a fact about x and its
// neighbours only, so the order of independent placements is never permuted,
// and it feeds the bounds that refute nodes:
//
//  - `bounds`: a sleeping item starts at the lowest top that any unplaced
//    neighbour can have; any other at its floor.
//  - A section is a machine that runs its unplaced items one at a time, with
//    their bounds as release dates. Running them by release date ends as early
//    as possible; that end must not exceed the capacity.
//
// After a placement the unplaced items may fall into parts that share no
// section. They are solved one after the other, and a part without a solution
// refutes the placement whatever the other parts look like.
//
// The time of such a search is heavy-tailed in the key order, so there are many
// short runs, slowly getting longer. Sections that refute nodes gain weight,
// and later runs put the items of heavy sections first.
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
  /// Looks for a placement no higher than `capacity` until `effort` is spent.
  Outcome fit(int64_t capacity, Effort &effort);
  /// The placement found by the last call that returned Fits.
  const Placement &placement() const { return found; }
  uint64_t nodes() const { return totalNodes; }

private:
  /// A set of items, as a range of `pool`, that hang together in time.
  struct Part {
    size_t begin, end;
  };
  /// One node, with the marks that restore the state it started from.
  struct Frame {
    Part part;
    int32_t item; ///< placed, and tried again asleep if that fails
    size_t trailMark, placedMark, poolMark, partsMark;
  };
  struct Change {
    int32_t item;
    int64_t floor, bound, sleepFloor;
  };

  /// The order of the items, most preferred first, in the given run.
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
  /// Equal items are interchangeable, so they go in the order of their ranks.
  bool waitsForTwin(int32_t item) const {
    return hasTwin[item] && !isPlaced[item - 1];
  }

  const Problem &problem;
  const int32_t numItems, numSections;
  int64_t capacity = 0;
  uint64_t totalNodes = 0;
  uint64_t steps = 0; ///< not yet reported to the effort
  Placement found;
  /// How often each section refuted a node, fading from run to run.
  std::vector<double> weights;

  // Of the current run. Items are indexed by their rank in its order, so that
  // comparing keys is comparing indices.
  std::vector<int32_t> itemOfRank;
  std::vector<Item> items;
  std::vector<uint8_t> hasTwin; ///< the item of the previous rank is equal
  /// Items of section s: sectionItems[sectionBegin[s] .. sectionBegin[s + 1]).
  std::vector<size_t> sectionBegin;
  std::vector<int32_t> sectionItems;

  // The state, per item and per section.
  std::vector<int64_t> floors, bounds, offsets;
  std::vector<int64_t> sleepFloors; ///< the floor it was last put to sleep at
  std::vector<uint8_t> isPlaced;
  std::vector<int64_t> unplacedSize;
  std::vector<int32_t> crossing; ///< unplaced items in sections s - 1 and s
  std::vector<Change> trail;
  std::vector<int32_t> placed;

  // Stacks that frames own ranges of.
  std::vector<Frame> frames;
  std::vector<int32_t> pool;
  std::vector<Part> parts; ///< still to be solved

  // Propagation: sections to check, and where bounds rose.
  std::vector<int32_t> touched;
  std::vector<uint32_t> touchStamps;
  uint32_t stamp = 0;
  int32_t changedFirst = 0, changedLast = 0;
  std::vector<std::pair<int64_t, int64_t>> jobs;
};

} // namespace kiln::arena

#endif // KILN_LIB_PLANNER_ARENASEARCH_H
