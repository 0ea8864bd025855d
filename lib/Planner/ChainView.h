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
// A segment [i, l] is the stages i to l with delta_{l+1}. Its needs are counted
// without a_i, which is there from before to after, and with delta_{l+1}.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINVIEW_H
#define KILN_LIB_PLANNER_CHAINVIEW_H

#include "kiln/Planner/ChainPlanner.h"

#include <algorithm>

namespace kiln::chain {

struct Option {
  int64_t saved = 0;
  int64_t hostBytes = 0;
  double time = 0; // forward and backward
  double forward = 0;
  /// Peak of the forward pass besides a_i and the gradient that waits.
  int64_t forwardNeed = 0;
  /// Peak of the backward pass besides a_i.
  int64_t backwardNeed = 0;
  /// Its place in the stage's options.
  int32_t index = 0;
};

/// How the schedule of a segment [i, l] may start; see ChainTable.h.
struct Choice {
  /// Of B, the option; null for A.
  const Option *saving = nullptr;
  /// Where the segment is split: [stop, l] first, then [i, stop - 1] or, for B,
  /// only the backward pass of i. [stop, l] is empty for B if stop > l.
  int32_t stop = 0;
  /// Bytes that [stop, l] has less of.
  int64_t stored = 0;
  /// Bytes that the choice's own operations need.
  int64_t need = 0;
  /// Time of the choice's own operations.
  double time = 0;
};

class View {
public:
  View(const Chain &chain, const ChainOptions &options);

  int32_t size() const { return static_cast<int32_t>(options.size()); }

  /// Peak of ForwardCheckpoint(i) and ForwardDrop(i) besides the gradient that
  /// waits, without and with a_i.
  int64_t checkpointNeed(int32_t i) const { return checkpointNeeds[i]; }
  int64_t dropNeed(int32_t i) const { return dropNeeds[i]; }

  /// Calls visit(choice) for every way to start [i, l].
  template <typename Visitor>
  void forEachChoice(int32_t i, int32_t l, Visitor visit) const {
    int64_t waiting = gradient[l + 1];
    for (const Option &option : options[i])
      visit(Choice{&option, i + 1, option.saved,
                   std::max(option.backwardNeed, waiting + option.forwardNeed),
                   option.time});
    double time = 0;
    int64_t need = checkpointNeed(i);
    for (int32_t j = i + 1; j <= l; ++j) {
      time += fastForward[j - 1];
      if (j - 1 > i)
        need = std::max(need, dropNeed(j - 1));
      visit(Choice{nullptr, j, value[j], waiting + need, time});
    }
  }

  /// Calls visit(i, l) once for each number of segments, short ones first.
  template <typename Visitor> void forEachSegment(Visitor visit) const {
    std::vector<bool> done(segmentCount, false);
    for (int32_t length = 1; length <= size(); ++length) {
      for (int32_t i = 0; i + length <= size(); ++i) {
        if (!done[segment(i, i + length - 1)])
          visit(i, i + length - 1);
        done[segment(i, i + length - 1)] = true;
      }
    }
  }

  /// Segments [i, l] with equal numbers are alike, for i <= l.
  int32_t segment(int32_t i, int32_t l) const {
    return segments[static_cast<size_t>(i) * size() + l];
  }
  int32_t numSegments() const { return segmentCount; }

  std::vector<int64_t> value, gradient; // bytes of a_i and delta_i
  std::vector<double> fastForward;
  std::vector<std::vector<Option>> options;

private:
  void addStage(const Chain &chain, int32_t i, const ChainOptions &settings);
  void numberSegments(const Chain &chain);

  std::vector<int64_t> checkpointNeeds, dropNeeds;
  std::vector<int32_t> segments;
  int32_t segmentCount = 0;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINVIEW_H
