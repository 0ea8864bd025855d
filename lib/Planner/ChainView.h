//===- ChainView.h - A chain, prepared for planning -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The planner's own form of a chain: only the options that may be used and that
// no other one dominates, what each operation needs at its peak, and which
// segments of the chain are alike. Equal segments have equal optima, so that a
// network of equal layers costs little more than one of them.
//
// A segment [first, end) is to be reversed: from a_first and the gradient
// behind its tail to delta_first. Its tail is either nothing (tail 0: delta_end
// is there), or stage `end`, whose forward pass has saved already and has
// dropped its input (tail u: abar_{end+1} of pending option u - 1 is there, and
// delta_{end+1}). An empty segment of tail u is the backward pass of its tail.
//
// Needs of a segment are counted without a_first, which is there from before to
// after, and with its tail.
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
  double time = 0; // forward and backward
  /// Peak of the forward pass besides what waits: without a_i, where it is kept
  /// for others, and with a_i, where it is dropped.
  int64_t saveNeed = 0;
  int64_t saveDropNeed = 0;
  /// Peak of the backward pass besides a_i.
  int64_t backwardNeed = 0;
  /// Its place in the stage's options.
  int32_t index = 0;
};

struct Segment {
  int32_t first = 0;
  int32_t end = 0;
  int32_t tail = 0;
};

/// One way to start the schedule of a segment [first, end): run the stages
/// before `split` without saving, and then
///
///   A  store a_split;                   right [split, end), left [first,
///   split) B  save in stage first = split;     right [first + 1, end) C  save
///   in stage split, and drop    right [split + 1, end),
///      its input;                       left [first, split) with that tail
///
/// The right segment is reversed next, beside what has been stored. Then, in
/// all of the memory again, the left one; for B, the backward pass of first.
struct Choice {
  /// Of B and C.
  const Option *saving = nullptr;
  int32_t split = 0;
  Segment right, left;
  /// Of A and C.
  bool hasLeft = false;
  /// Bytes that lie beside the right segment.
  int64_t stored = 0;
  /// Bytes that the choice's own operations need; with B's backward pass.
  int64_t need = 0;
  /// Time of the choice's own operations, and of the backward passes of what
  /// they save.
  double time = 0;
};

class View {
public:
  View(const Chain &chain, const ChainOptions &options);

  /// Lets stages save and drop their input, with some `count` options each:
  /// those that are best if a byte that stage i saves costs prices[i] seconds.
  void setPending(size_t count, const std::vector<double> &prices);
  /// As setPending, with options that are better than those left out, so that
  /// the optimum is a bound.
  void setPendingRelaxed(size_t count);
  void setPendingAll() { setPendingRelaxed(largestMenu()); }
  /// Leaves out choices whose left segment has more than `most` stages, and the
  /// segments that then are part of none. Little is lost: unless memory is very
  /// short, something is stored every few stages.
  void setSpan(int32_t most);

  size_t largestMenu() const;
  int32_t size() const { return static_cast<int32_t>(options.size()); }
  Segment whole() const { return {0, size(), 0}; }

  /// What is there besides a_first at the start of a segment.
  int64_t waiting(const Segment &segment) const {
    return segment.tail == 0
               ? gradient[segment.end]
               : gradient[segment.end + 1] + pendingOf(segment).saved;
  }
  /// What an empty segment needs.
  int64_t emptyNeed(const Segment &segment) const {
    return segment.tail == 0 ? gradient[segment.end]
                             : pendingOf(segment).backwardNeed;
  }

  /// Calls visit(choice) for every way to start a segment that is not empty.
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

  /// Calls visit(segment) once for each number, left and right ones before
  /// those that they are parts of.
  template <typename Visitor> void forEachSegment(Visitor visit) const;

  /// Segments with equal numbers are alike.
  int32_t number(const Segment &segment) const {
    return numbers[place(segment)];
  }
  int32_t numSegments() const { return segmentCount; }

  std::vector<int64_t> value, gradient; // bytes of a_i and delta_i
  std::vector<double> fastForward;
  std::vector<std::vector<Option>> options, pending;

private:
  void addStage(const Chain &chain, int32_t i, const ChainOptions &settings);
  void numberKinds(const Chain &chain);
  void numberSegments();

  const Option &pendingOf(const Segment &segment) const {
    return pending[segment.end][segment.tail - 1];
  }
  /// The last stage that a left segment may end at.
  int32_t lastSplit(const Segment &segment) const {
    auto [first, end, tail] = segment;
    return std::min(tail == 0 ? end - 1 : end, first + std::min(span, end));
  }
  /// The first stage of the longest segment with this end.
  int32_t firstOf(int32_t end) const {
    return end == size() ? 0 : end - std::min(span, end);
  }
  int32_t numTails(int32_t end) const {
    return end < size() ? 1 + static_cast<int32_t>(pending[end].size()) : 1;
  }
  /// Those that end at the last stage come first: all lengths, no tail.
  size_t place(const Segment &segment) const {
    size_t length = segment.end - segment.first;
    if (segment.end == size())
      return length;
    size_t row = size_t(segment.end) * tailStride + segment.tail;
    return size() + 1 + row * lengthStride + length;
  }

  /// Peaks of ForwardCheckpoint(i) without a_i, of ForwardDrop(i) with a_i.
  std::vector<int64_t> checkpointNeeds, dropNeeds;
  /// Equal for stages that are equal in all that is planned with.
  std::vector<int32_t> kinds;
  int32_t span = std::numeric_limits<int32_t>::max();
  size_t tailStride = 1, lengthStride = 1;
  /// How many pending options the stages before i have.
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
  // Right segments end where theirs do, so they stay in the cache.
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
