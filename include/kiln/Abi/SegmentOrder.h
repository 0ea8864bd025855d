//===- SegmentOrder.h - Order of the segments of micro-batches --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A micro-batch has two segments: its forward segment, and its backward
// segment, which begins with the loss. An order is a sequence that contains
// each segment of every micro-batch once; the forward segment of a micro-batch
// precedes its backward segment. Between its two segments, a micro-batch is *in
// flight*: its residuals (values that the backward segment reads) are in
// memory.
//
// Residuals are stored in rings. A ring has one slot per micro-batch that may
// be in flight. The order determines the slot of a micro-batch: the free slot
// with the lowest number when its forward segment begins.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_SEGMENTORDER_H
#define KILN_ABI_SEGMENTORDER_H

#include "kiln/Support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::abi {

enum class Segment : uint8_t { Forward, Backward };

/// The maximum number of micro-batches of a step.
inline constexpr int64_t maxMicrobatches = int64_t(1) << 20;

/// One execution of the forward or backward segment of a micro-batch.
struct SegmentRun {
  Segment segment = Segment::Forward;
  int64_t microbatch = 0;
  /// Some buffers have one instance per micro-batch in flight. This execution
  /// uses the instances with the index `slot`.
  int64_t slot = 0;
  /// `isFirst` is true for the first execution of this segment in the order,
  /// and `isLast` for the last one. These need not be the executions for the
  /// first and the last micro-batch.
  bool isFirst = false, isLast = false;

  /// Returns "F3" for the forward segment of micro-batch 3, "B3" for its
  /// backward segment.
  std::string name() const;
};

class SegmentOrder {
public:
  /// Fi and Bi are the forward and the backward segment of micro-batch i.
  enum class Kind : uint8_t {
    Alternate,       ///< F0 B0 F1 B1 ...
    AllForwardFirst, ///< F0 F1 ... B0 B1 ...
    /// With 2 micro-batches in flight, for example: F0 F1 B0 F2 B1 F3 ...
    OneForwardOneBackward,
    Listed
  };

  /// The order F0 B0 F1 B1 ...
  SegmentOrder() = default;

  /// Parses "alternate", "all-forward-first", "one-forward-one-backward:K" with
  /// positive K, or a list such as "F0 F1 B0 B1", whose entries are separated
  /// by spaces, commas, tabs or line ends. Does not check that a list has the
  /// forward and the backward segment of each micro-batch once, because this
  /// requires the number of micro-batches (see check()).
  static support::Result<SegmentOrder> parse(std::string_view text);

  Kind kind() const { return kind_; }
  /// Returns a text that parse() converts to an equal order.
  std::string text() const;

  /// Succeeds if this is an order of `count` micro-batches. Otherwise returns
  /// an error. For a list, the error names the segment (forward or backward)
  /// and the micro-batch at fault.
  support::Status check(int64_t count) const;

  // The following functions need an order that passes check(count).

  /// Returns the executions of forward and backward segments, two for each of
  /// `count` micro-batches.
  std::vector<SegmentRun> runs(int64_t count) const;
  /// Returns the maximum number of micro-batches that are in flight (between
  /// their two segments) at a time. The buffer of a residual has this number of
  /// instances, the slots of a ring.
  int64_t slots(int64_t count) const;
  /// Returns a shorter order, and its number of micro-batches, which is at most
  /// 9. A check of all pairs of consecutive segments covers the same cases in
  /// the shorter order and takes less time: for each pair of this order, the
  /// shorter order has a pair
  ///   - whose segments have the same kinds, `isFirst` and `isLast`, and
  ///   - whose segments share a ring slot if and only if those of the pair of
  ///     this order share one.
  /// Exception: an order that is a list (Kind::Listed) is returned unchanged.
  std::pair<SegmentOrder, int64_t> shortened(int64_t count) const;
  /// Returns true if the backward segments are executed in ascending order of
  /// micro-batches. All orders with this property add the contributions of
  /// micro-batches in the same order, so that sums over micro-batches have the
  /// same bits.
  bool hasAscendingBackward(int64_t count) const;

  bool operator==(const SegmentOrder &other) const {
    return kind_ == other.kind_ && inFlight_ == other.inFlight_ &&
           listed_ == other.listed_;
  }
  bool operator!=(const SegmentOrder &other) const { return !(*this == other); }

private:
  struct Entry {
    Segment segment;
    int64_t microbatch;
    bool operator==(const Entry &other) const {
      return segment == other.segment && microbatch == other.microbatch;
    }
  };

  std::vector<Entry> entries(int64_t count) const;

  Kind kind_ = Kind::Alternate;
  int64_t inFlight_ = 1;      ///< Of OneForwardOneBackward.
  std::vector<Entry> listed_; ///< Of Listed.
};

} // namespace kiln::abi

#endif // KILN_ABI_SEGMENTORDER_H
