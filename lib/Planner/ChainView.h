//===- ChainView.h - A chain prepared for planning --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The planner's representation of a chain: the permitted options that no other
// option dominates, the peak memory of each operation, and the equivalence
// classes of segments (consecutive stages). Equal segments have equal optima,
// so a network of equal layers costs little more than one layer.
//
// Let a_i be the input of stage i, delta_i the gradient of a_i, and abar_{i+1}
// the values that stage i saves (see Chain.h). Reversing a segment [first, end)
// computes delta_first from a_first and the gradient after its tail:
//
//   - Tail 0 is empty; delta_end is in memory.
//   - Tail u > 0 is stage `end`. Its forward pass has already run with pending
//     option u - 1, that is, it has saved abar_{end+1} and dropped its input.
//     abar_{end+1} and delta_{end+1} are in memory.
//
// If the segment is empty and has a tail u > 0, reversing it is the backward
// pass of stage `end`.
//
// The memory needed by a segment includes its tail, but not a_first, which is
// in memory before, during and after the reversal of the segment.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINVIEW_H
#define KILN_LIB_PLANNER_CHAINVIEW_H

#include "kiln/Planner/ChainPlanner.h"

#include <algorithm>

namespace kiln::chain {

struct Option {
  int64_t saved = 0;
  double forward = 0;
  double time = 0; // Seconds of forward and backward.
  /// Peak bytes of a forward pass that saves values for the backward pass, not
  /// counting View::waiting(), the bytes that are present at the start of the
  /// segment. saveNeed is for a forward pass that keeps the input of the stage,
  /// and does not count the input. saveDropNeed is for a forward pass that
  /// drops the input, and counts it.
  int64_t saveNeed = 0;
  int64_t saveDropNeed = 0;
  /// Peak bytes of the backward pass, without the input of the stage.
  int64_t backwardNeed = 0;
  /// Index in the stage's options.
  int32_t index = 0;
};

struct Segment {
  int32_t first = 0;
  int32_t end = 0;
  int32_t tail = 0;
};

/// One way to start the schedule of a segment [first, end): run the stages
/// before `split` without saving, and then do one of the following. "right" and
/// "left" are the segments that remain.
///
///   A  store a_split;
///        right [split, end), left [first, split)
///   B  run stage first = split, and save its values;
///        right [first + 1, end)
///   C  run stage split, save its values, and drop its input;
///        right [split + 1, end), left [first, split) with stage split as tail
///
/// The right segment is reversed (its gradients are computed) next, while the
/// stored tensor stays in memory. The left segment is reversed afterwards with
/// all of the memory; for B, the backward pass of `first` follows instead.
struct Choice {
  /// The option of the stage that is saved (B and C above); null for A.
  const Option *saving = nullptr;
  int32_t split = 0;
  Segment right, left;
  /// True if the stages [first, split) form a left segment (A and C above).
  bool hasLeft = false;
  /// Bytes stored while the gradients of the right segment are computed.
  int64_t stored = 0;
  /// Bytes needed by the choice's own operations. In case B above, these
  /// operations include the backward pass of stage `first`.
  int64_t need = 0;
  /// Time of the choice's own operations and, if they save a stage, of the
  /// backward pass of this stage.
  double time = 0;
};

class View {
public:
  View(const Chain &chain, const ChainOptions &options);

  /// Lets each stage save and drop its input, with up to `count` of its
  /// options, which are called pending. Chooses the options that are best if a
  /// byte saved by stage i costs prices[i] seconds.
  void setPending(size_t count, const std::vector<double> &prices);
  /// Like setPending(), but replaces options of similar size by one option that
  /// is at least as good as each of them, so that the optimum is a lower bound.
  void setPendingRelaxed(size_t count);
  void setPendingAll() { setPendingRelaxed(largestMenu()); }
  /// Omits choices whose left segment (the stages before the stored value) has
  /// more than `most` stages, and segments that are then unreachable. Schedules
  /// become only slightly slower, because unless memory is very short, a good
  /// schedule stores a value every few stages.
  void setSpan(int32_t most);

  size_t largestMenu() const;
  int32_t size() const { return static_cast<int32_t>(options.size()); }
  Segment whole() const { return {0, size(), 0}; }

  /// Returns the bytes present at the start of a segment, not counting a_first,
  /// the input of its first stage.
  int64_t waiting(const Segment &segment) const {
    return segment.tail == 0
               ? gradient[segment.end]
               : gradient[segment.end + 1] + pendingOf(segment).saved;
  }
  /// Returns the bytes needed by an empty segment. If the segment has a tail
  /// (the stage `end`, if its forward pass has already saved values), these are
  /// the bytes of the backward pass of the tail. Otherwise they are the bytes
  /// of the gradient of the segment's input.
  int64_t emptyNeed(const Segment &segment) const {
    return segment.tail == 0 ? gradient[segment.end]
                             : pendingOf(segment).backwardNeed;
  }

  /// Calls visit(choice) for every way to start the schedule of a segment that
  /// is not empty.
  template <typename Visitor>
  void forEachChoice(const Segment &segment, Visitor visit) const;

  size_t numChoices(const Segment &segment) const {
    auto [first, end, tail] = segment;
    if (first == end)
      return 0;
    int32_t last = lastSplit(segment);
    return options[first].size() + (last - first) +
           pendingBefore[std::min(last + 1, end)] - pendingBefore[first + 1];
  }

  /// Calls visit(segment) once for each segment number. Visits a segment only
  /// after all segments that can be its right or left segment (see Choice).
  template <typename Visitor> void forEachSegment(Visitor visit) const;

  /// Returns the number of a segment. Equivalent segments have equal numbers.
  int32_t number(const Segment &segment) const {
    return numbers[place(segment)];
  }
  int32_t numSegments() const { return segmentCount; }

  // Bytes of a_i, the input of stage i, and of its gradient delta_i.
  std::vector<int64_t> value, gradient;
  std::vector<double> fastForward;
  std::vector<std::vector<Option>> options, pending;

private:
  void addStage(const Chain &chain, int32_t i, const ChainOptions &settings);
  void numberKinds(const Chain &chain);
  void numberSegments();

  const Option &pendingOf(const Segment &segment) const {
    return pending[segment.end][segment.tail - 1];
  }
  /// Returns the largest value of Choice::split for a segment, the stage before
  /// which the segment is split in two.
  int32_t lastSplit(const Segment &segment) const {
    auto [first, end, tail] = segment;
    return std::min(tail == 0 ? end - 1 : end, first + std::min(span, end));
  }
  /// Returns the first stage of the longest segment with this end.
  int32_t firstOf(int32_t end) const {
    return end == size() ? 0 : end - std::min(span, end);
  }
  int32_t numTails(int32_t end) const {
    return end < size() ? 1 + static_cast<int32_t>(pending[end].size()) : 1;
  }
  /// Returns the index of a segment in `numbers`. Segments that end at the last
  /// stage come first; they may have any length and have no tail. The tail of a
  /// segment is the next stage, if the forward pass of that stage has already
  /// saved values.
  size_t place(const Segment &segment) const {
    size_t length = segment.end - segment.first;
    if (segment.end == size())
      return length;
    size_t row = size_t(segment.end) * tailStride + segment.tail;
    return size() + 1 + row * lengthStride + length;
  }

  /// checkpointNeeds[i] is the peak of ForwardCheckpoint(i), without the input
  /// of stage i. dropNeeds[i] is the peak of ForwardDrop(i), with this input.
  std::vector<int64_t> checkpointNeeds, dropNeeds;
  /// Equivalence class of each stage: stages with equal figures have equal
  /// kinds.
  std::vector<int32_t> kinds;
  int32_t span = std::numeric_limits<int32_t>::max();
  size_t tailStride = 1, lengthStride = 1;
  /// A pending option of a stage is an option with which the stage saves and
  /// drops its input. pendingBefore[i] is the number of pending options of all
  /// stages before stage i.
  std::vector<size_t> pendingBefore;
  std::vector<int32_t> numbers;
  int32_t segmentCount = 0;
};

template <typename Visitor>
void View::forEachChoice(const Segment &segment, Visitor visit) const {
  auto [first, end, tail] = segment;
  int64_t beside = waiting(segment);
  Choice choice;
  choice.split = first;
  choice.right = {first + 1, end, tail};
  for (const Option &option : options[first]) {
    choice.saving = &option;
    choice.stored = option.saved;
    choice.need = std::max(option.backwardNeed, beside + option.saveNeed);
    choice.time = option.time;
    visit(choice);
  }

  choice.hasLeft = true;
  double forward = 0;
  int64_t forwardNeed = beside + checkpointNeeds[first];
  int32_t last = lastSplit(segment);
  for (int32_t split = first + 1; split <= last; ++split) {
    forward += fastForward[split - 1];
    if (split - 1 > first)
      forwardNeed = std::max(forwardNeed, beside + dropNeeds[split - 1]);
    choice.split = split;
    choice.saving = nullptr;
    choice.right = {split, end, tail};
    choice.left = {first, split, 0};
    choice.stored = value[split];
    choice.need = forwardNeed;
    choice.time = forward;
    visit(choice);
    if (split == end)
      continue;
    choice.right = {split + 1, end, tail};
    for (size_t u = 0; u < pending[split].size(); ++u) {
      const Option &option = pending[split][u];
      choice.saving = &option;
      choice.left.tail = static_cast<int32_t>(u) + 1;
      choice.stored = option.saved;
      choice.need = std::max(forwardNeed, beside + option.saveDropNeed);
      choice.time = forward + option.time;
      visit(choice);
    }
  }
}

template <typename Visitor> void View::forEachSegment(Visitor visit) const {
  std::vector<bool> done(segmentCount, false);
  // Iterate over ends first. If a segment is split, its right part has the same
  // end. The results for right parts are therefore likely to be in the cache.
  for (int32_t end = 0; end <= size(); ++end) {
    for (int32_t first = end; first >= firstOf(end); --first) {
      for (int32_t tail = 0; tail < numTails(end); ++tail) {
        Segment segment{first, end, tail};
        if (!done[number(segment)])
          visit(segment);
        done[number(segment)] = true;
      }
    }
  }
}

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINVIEW_H
