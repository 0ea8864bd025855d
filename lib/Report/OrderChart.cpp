//===- OrderChart.cpp - Tables and charts of orders of segments -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shows the order of forward and backward segments as text and as an SVG chart.
// Both have one column per execution of a segment, and one row per ring slot.
// Micro-batches that are in flight at the same time have different ring slots.
//
//===----------------------------------------------------------------------===//

#include "PlanCharts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace kiln;
using namespace kiln::abi;
using namespace kiln::report;
using llvm::formatv;

/// Returns the number of rows of the chart of `runs`: one row for each ring
/// slot (the memory for one micro-batch in flight).
static int64_t rowsOf(llvm::ArrayRef<SegmentRun> runs) {
  int64_t rows = 0;
  for (const SegmentRun &run : runs)
    rows = std::max(rows, run.slot + 1);
  return rows;
}

std::string kiln::report::orderTable(llvm::ArrayRef<SegmentRun> runs,
                                     size_t most) {
  llvm::ArrayRef<SegmentRun> shown = runs.take_front(most);
  size_t width = 0;
  for (const SegmentRun &run : shown)
    width = std::max(width, run.name().size() + 1);
  std::string text;
  llvm::raw_string_ostream os(text);
  for (int64_t row = 0; row < rowsOf(shown); ++row) {
    std::string line = formatv("  slot {0,-4}", row).str();
    for (const SegmentRun &run : shown) {
      std::string cell = run.slot == row ? run.name() : "";
      line += cell + std::string(width - cell.size(), ' ');
    }
    if (shown.size() < runs.size())
      line += "...";
    os << llvm::StringRef(line).rtrim() << "\n";
  }
  return text;
}

std::string kiln::report::orderChart(llvm::ArrayRef<SegmentRun> runs,
                                     size_t most) {
  llvm::ArrayRef<SegmentRun> shown = runs.take_front(most);
  constexpr double left = 60, right = 990, top = 6, height = 26;
  int64_t rows = rowsOf(shown);
  double step = (right - left) / double(std::max<size_t>(shown.size(), 1));
  auto x = [&](size_t column) { return left + step * double(column); };
  auto y = [&](int64_t row) { return top + height * double(row); };
  std::string text;
  llvm::raw_string_ostream os(text);
  os << formatv("<svg viewBox=\"0 0 1000 {0:f1}\" role=\"img\" "
                "aria-label=\"segments of micro-batches, by ring slot\">\n",
                y(rows) + 6);
  for (int64_t row = 0; row < rows; ++row)
    os << formatv("<text x=\"{0:f1}\" y=\"{1:f1}\" "
                  "text-anchor=\"end\">slot {2}</text>\n",
                  left - 8, y(row) + 16, row);
  // A bar connects the two segments of a micro-batch while it is in flight.
  for (auto [column, run] : llvm::enumerate(shown)) {
    if (run.segment != Segment::Forward)
      continue;
    auto end = llvm::find_if(shown, [&run = run](const SegmentRun &other) {
      return other.segment == Segment::Backward &&
             other.microbatch == run.microbatch;
    });
    os << formatv("<rect class=\"flight\" x=\"{0:f1}\" y=\"{1:f1}\" "
                  "width=\"{2:f1}\" height=\"6\"/>\n",
                  x(column), y(run.slot) + 8,
                  x(end - shown.begin()) - x(column));
  }
  for (auto [column, run] : llvm::enumerate(shown)) {
    bool isForward = run.segment == Segment::Forward;
    os << formatv("<rect class=\"{0}\" x=\"{1:f1}\" y=\"{2:f1}\" "
                  "width=\"{3:f1}\" height=\"{4:f1}\"><title>{5} segment of "
                  "micro-batch {6}, ring slot {7}</title></rect>\n",
                  isForward ? "forward" : "backward", x(column), y(run.slot),
                  step - 1, height - 4, isForward ? "forward" : "backward",
                  run.microbatch, run.slot);
    if (step >= 18)
      os << formatv("<text class=\"mark\" x=\"{0:f1}\" y=\"{1:f1}\" "
                    "text-anchor=\"middle\">{2}</text>\n",
                    x(column) + step / 2, y(run.slot) + 15, run.name());
  }
  os << "</svg>\n";
  return text;
}
