//===- StateLayout.h - The elements of a state on a rank --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Enumerates the elements of a tensor that a rank holds, as *runs* of elements
// that are contiguous both in the whole tensor and in the part of the rank. A
// matrix of 2 rows and 5 columns whose columns are divided over two ranks
// (blocks = 2, elements = 6) has these runs on rank 1:
//
//   whole   0 1 2 3 4 | 5 6 7 8 9
//   part    3 4 .     | 8 9 .        "." is padding, a zero
//   runs    {whole 3, local 0, count 2}, {whole 8, local 3, count 2}
//
// A second division of the state would divide this part of 6 elements,
// including its padding.
//
// Both `whole` and `local` increase from one run of elements to the next. The
// elements of a rank's part that are in no run are padding. Consider the ranks
// that have the same indexes on all axes over which the state is not divided.
// Each element of the whole tensor is in a run of exactly one of these ranks.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_STATELAYOUT_H
#define KILN_RUNTIME_ENGINE_STATELAYOUT_H

#include "kiln/Runtime/Engine/Description.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kiln::runtime {

/// A run of `count` elements, which begins at element `whole` of the tensor and
/// at element `local` of the part of a rank.
struct ElementRun {
  int64_t whole = 0, local = 0, count = 0;
};

class StateLayout {
public:
  /// Describes a whole tensor of `elements` elements.
  explicit StateLayout(int64_t elements) : wholeElements_(elements) {}
  /// Describes the part that a rank of the mesh holds. The divisions of the
  /// state must be valid. `rank` has no effect on a state that is not divided.
  StateLayout(const StateInfo &state, const support::Mesh &mesh, int64_t rank)
      : wholeElements_(state.globalElements()) {
    int64_t elements = wholeElements_;
    for (const Division &division : state.divisions) {
      Level &level = levels_[depth_++];
      level.length = elements / division.blocks;
      level.part = division.elements / division.blocks;
      level.begin =
          division.beginOf(mesh.indexOn(division.axis, rank), level.length);
      level.held = std::min(level.part, level.length - level.begin);
      elements = division.elements;
    }
    // Without divisions, a state may still store a block of a larger tensor
    // (StateInfo::shard). The layout is then that of the block.
    if (depth_ == 0)
      wholeElements_ = state.partElements();
  }

  /// Returns all elements of the tensor.
  ElementRange whole() const { return {0, wholeElements_}; }

  /// Calls body(const ElementRun &) for each run in a range of elements of the
  /// whole tensor, in increasing order. Runs are cut off at the ends of the
  /// range. Allocates no memory.
  template <typename Body>
  void forEachRun(const ElementRange &range, Body &&body) const {
    walk(0, range, 0, body);
  }

  /// `range` is a range of the whole tensor. Returns how many of its elements
  /// this rank holds.
  int64_t elementsIn(const ElementRange &range) const {
    int64_t elements = 0;
    forEachRun(range, [&](const ElementRun &run) { elements += run.count; });
    return elements;
  }

  /// `part` is a range of the elements that this rank holds. Returns the
  /// smallest range of the whole tensor that contains these elements, or an
  /// empty range if all of them are padding.
  ElementRange wholeOf(const ElementRange &part) const {
    ElementRange found = {wholeElements_, 0};
    forEachRun(whole(), [&](const ElementRun &run) {
      int64_t begin = std::max(run.local, part.begin);
      int64_t end = std::min(run.local + run.count, part.end);
      if (begin >= end)
        return;
      found.begin = std::min(found.begin, run.whole + begin - run.local);
      found.end = run.whole + end - run.local;
    });
    return found.end == 0 ? ElementRange{0, 0} : found;
  }

  /// Returns the smallest range of the whole tensor that contains all elements
  /// that this rank holds.
  ElementRange span() const {
    ElementRange span = {wholeElements_, 0};
    forEachRun(whole(), [&](const ElementRun &run) {
      span.begin = std::min(span.begin, run.whole);
      span.end = run.whole + run.count;
    });
    return span.end == 0 ? ElementRange{0, 0} : span;
  }

private:
  /// One division of the tensor over a mesh axis. Of each block of `length`
  /// elements, this rank has `part` elements: the elements [begin, begin +
  /// held) of the block, followed by padding.
  struct Level {
    int64_t length = 0, part = 0, begin = 0, held = 0;
  };

  /// Calls `body` for each run of contiguous elements in `range`. If `depth` is
  /// 0, `range` is a range of the whole tensor, and otherwise of the elements
  /// that this rank has after the first `depth` divisions. Index i in `range`
  /// is index i + `shift` in the whole tensor.
  template <typename Body>
  void walk(std::size_t depth, const ElementRange &range, int64_t shift,
            Body &body) const {
    if (range.begin >= range.end)
      return;
    if (depth == depth_) {
      body(ElementRun{range.begin + shift, range.begin, range.size()});
      return;
    }
    const Level &level = levels_[depth];
    if (level.held == 0)
      return;
    for (int64_t block = range.begin / level.length;
         block * level.length < range.end; ++block) {
      int64_t first = block * level.length + level.begin;
      int64_t begin = std::max(range.begin, first);
      int64_t end = std::min(range.end, first + level.held);
      int64_t local = block * level.part + (begin - first);
      if (begin < end)
        walk(depth + 1, {local, local + end - begin}, shift + begin - local,
             body);
    }
  }

  int64_t wholeElements_;
  std::array<Level, support::maxMeshAxes> levels_;
  std::size_t depth_ = 0; ///< The number of levels in use.
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_STATELAYOUT_H
