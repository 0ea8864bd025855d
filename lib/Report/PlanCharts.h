//===- PlanCharts.h - Charts of memory plans --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_REPORT_PLANCHARTS_H
#define KILN_LIB_REPORT_PLANCHARTS_H

#include "PlanFigures.h"

namespace kiln::report {

/// Horizontal positions of the start of the first command and of the end of the
/// last command in the timeline, which is 1000 units wide.
inline constexpr int timelineLeft = 84, timelineRight = 990;

/// Escapes text for an element or a quoted attribute.
std::string escapeHtml(llvm::StringRef text);

/// Divides the moments into at most `points` intervals and returns, for each
/// interval, the moment with the most live bytes.
std::vector<Moment> downsample(const std::vector<Moment> &moments,
                               size_t points);

/// The live bytes of one arena over a step.
struct Timeline {
  llvm::StringRef label;
  std::vector<Moment> points;
  int64_t arena = 0, budget = 0, peakCommand = 0;
  bool hasCursor = false; ///< True if the page's script draws a cursor.
};

/// Returns an SVG chart of the live bytes at each command. The bytes of the
/// different classes of buffers are stacked.
std::string timelineChart(const PlanFigures &plan, const Timeline &timeline);

/// Returns an SVG chart of the buffers of the arena that are not states. A
/// buffer is a rectangle: the horizontal axis shows its lifetime, and the
/// vertical axis shows its offsets. Sets `drawn` to the number of buffers that
/// are large enough to be visible, and `total` to the number of all buffers.
std::string arenaChart(const PlanFigures &plan, size_t &drawn, size_t &total);

/// Returns the first `most` executions of forward and backward segments as
/// text, one line per ring slot (the memory for one micro-batch in flight).
std::string orderTable(llvm::ArrayRef<abi::SegmentRun> runs, size_t most);

/// Returns an SVG chart of the first `most` executions of segments. The chart
/// has a row for each ring slot, in which micro-batches store their values one
/// after the other. Bars connect the two segments of a micro-batch.
std::string orderChart(llvm::ArrayRef<abi::SegmentRun> runs, size_t most);

} // namespace kiln::report

#endif // KILN_LIB_REPORT_PLANCHARTS_H
