//===- ArenaSearch.h - Exact search for arena offsets -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides whether a problem fits into a capacity, by depth-first search over
// *canonical* placements (the idea is M. D. Moffitt's, "MiniMalloc", ASPLOS
// 2023 vol. 4): items are placed in ascending order of offset, ties in the
// order of a key, and each at its *floor*, the lowest offset above everything
// already placed in its sections. Any placement turns into a canonical one that
// is no higher by letting items drop, so nothing is lost.
//
// A node of the tree is a set of unplaced items that hang together in time, and
// the last placement (L, K) = (offset, key). It is refuted by bounds:
//
//  - An item whose floor and key come before (L, K) missed its turn at that
//    floor. It has to land on an unplaced neighbour, which raises the bound on
//    its offset to the lowest top that a neighbour can have.
//  - A section is a machine that runs its unplaced items one at a time, with
//    their bounds as release dates. Running them by release date gives the
//    least end; it must not exceed the capacity.
//  - If some unplaced item would fit whole below L, moving it there gives a
//    placement found elsewhere in the tree (dominance). For the same reason no
//    item is placed above the lowest top among the unplaced.
//
// After each placement the set splits where no unplaced item crosses from one
// section to the next. The parts are solved one by one, and a part without a
// solution refutes the placement whatever the other parts look like.
//
// Running times of such a search are heavy-tailed in the key, so short runs
// over several keys precede longer ones. Sections that refute nodes gain weight
// over the runs, and most keys put items of heavy sections first.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_ARENASEARCH_H
#define KILN_LIB_PLANNER_ARENASEARCH_H

#include "ArenaProblem.h"

#include <optional>

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
  /// One node: the unplaced items [begin, end) of `pool`, and its children.
  struct Frame {
    size_t begin, end;
    int32_t firstSection, lastSection;
    int64_t lastOffset; ///< L
    int32_t lastRank;   ///< K
    size_t candidateBegin, candidateEnd, candidate;
    /// The open parts of the current child, largest first, in `parts`.
    size_t partBegin;
    size_t trailMark, placedMark;
  };
  struct Part {
    size_t begin, end;
  };
  struct Change {
    int32_t item;
    int64_t floor, bound;
  };

  void setOrder(const std::vector<int32_t> &order);
  std::vector<int32_t> makeOrder(unsigned run);
  Outcome runOnce(uint64_t nodeLimit, Effort &effort);

  bool openFrame(Part part, int64_t lastOffset, int32_t lastRank);
  bool raiseBounds(const Frame &frame);
  void collectCandidates(Frame &frame, int64_t ceiling);
  bool place(const Frame &frame, int32_t item);
  void split(Frame &frame, int32_t item);
  void undo(const Frame &frame);
  void closeFrame(Frame &frame);

  void touch(int32_t firstSection, int32_t lastSection);
  bool checkTouched();
  bool sectionFits(int32_t section);
  void record(int32_t item);
  bool missedTurn(int32_t item, int64_t offset, int32_t rank) const {
    return floors[item] < offset || (floors[item] == offset && item < rank);
  }

  const Problem &problem;
  int32_t numItems, numSections;
  int64_t capacity = 0;
  uint64_t totalNodes = 0;
  uint64_t steps = 0;
  Placement found;

  // Items by rank in the current key order.
  std::vector<Item> items;
  std::vector<int32_t> rankToItem;
  std::vector<uint8_t> hasTwin; ///< an equal item has the previous rank
  // Items of each section: sectionItems[sectionBegin[s] .. sectionBegin[s+1]).
  std::vector<size_t> sectionBegin;
  std::vector<int32_t> sectionItems;

  // The state of the search, restored from the trail.
  std::vector<int64_t> floors, bounds, offsets;
  std::vector<uint8_t> isPlaced;
  std::vector<int64_t> unplacedSize; ///< per section
  std::vector<int32_t> crossing;     ///< unplaced items in sections s-1 and s
  std::vector<Change> trail;
  std::vector<int32_t> placed;

  // Stacks that frames own ranges of.
  std::vector<Frame> frames;
  std::vector<int32_t> pool, candidates;
  std::vector<Part> parts;

  // Scratch.
  std::vector<int32_t> touched, missed;
  std::vector<uint32_t> touchStamp;
  uint32_t stamp = 0;
  std::vector<std::pair<int64_t, int64_t>> jobs;

  /// How often each section refuted a node.
  std::vector<double> weight;
};

} // namespace kiln::arena

#endif // KILN_LIB_PLANNER_ARENASEARCH_H
