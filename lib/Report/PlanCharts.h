//===- PlanCharts.h - Pictures of a memory plan -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_REPORT_PLANCHARTS_H
#define KILN_LIB_REPORT_PLANCHARTS_H

#include "PlanFigures.h"

namespace kiln::report {

/// Where the first command begins and the last one ends in the timeline, whose
/// width is 1000.
inline constexpr int timelineLeft = 84, timelineRight = 990;

/// Text inside an element or a quoted attribute.
std::string escapeHtml(llvm::StringRef text);

/// Of every stretch of commands, the one with most bytes alive.
std::vector<Moment> downsample(const std::vector<Moment> &moments,
                               size_t points);

/// One arena over a step.
struct Timeline {
  llvm::StringRef label;
  std::vector<Moment> points;
  int64_t arena = 0, budget = 0, peakCommand = 0;
  bool hasCursor = false; ///< for the script
};

/// SVG: bytes alive over commands, stacked by class.
std::string timelineChart(const PlanFigures &plan, const Timeline &timeline);

/// SVG: the part of the arena above the states, as offset against lifetime.
/// `drawn` and `total` say how many buffers were high enough to be seen.
std::string arenaChart(const PlanFigures &plan, size_t &drawn, size_t &total);

} // namespace kiln::report

#endif // KILN_LIB_REPORT_PLANCHARTS_H
