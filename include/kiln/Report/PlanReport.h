//===- PlanReport.h - Reports of memory plans -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Formats, in three ways, the plan that `kilnc --emit=plan` writes: as text for
// a terminal, as an HTML page, and as a snapshot for the memory viewer of
// PyTorch. The reports depend only on the plan.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_REPORT_PLANREPORT_H
#define KILN_REPORT_PLANREPORT_H

#include "llvm/Support/JSON.h"

#include <string>

namespace kiln {

/// Properties of the compilation that the page shows in addition to the plan.
struct ReportTitle {
  std::string model, version, commandLine;
};

namespace report {
/// Formats a size, such as "2.30 GiB", "12.00 KiB" or "17 B".
std::string bytesText(int64_t bytes);
} // namespace report

/// Returns the summary: the peak, in total and per memory class, the largest
/// buffers at the peak, the step time and its lower bound, and the choices of
/// the planner.
std::string planSummary(const llvm::json::Object &plan);

/// Returns a self-contained HTML page: it loads no script, style or image.
std::string planPage(const llvm::json::Object &plan, const ReportTitle &title);

/// Returns a JSON snapshot in the format of torch.cuda.memory for
/// pytorch.org/memory_viz, where the arena is one segment and each buffer is an
/// allocation.
std::string planSnapshot(const llvm::json::Object &plan);

} // namespace kiln

#endif // KILN_REPORT_PLANREPORT_H
