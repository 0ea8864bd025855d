//===- PlanReport.h - A memory plan for people ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Three views of the plan that `kilnc --emit=plan` writes: a text for a
// terminal, a page for a browser, a snapshot for the memory viewer of PyTorch.
// All are functions of the plan alone: whatever they show can be read in it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_REPORT_PLANREPORT_H
#define KILN_REPORT_PLANREPORT_H

#include "llvm/Support/JSON.h"

#include <string>

namespace kiln {

/// What a page says about the compilation besides the plan.
struct ReportTitle {
  std::string model, version, commandLine;
};

namespace report {
/// "2.30 GiB", "12.00 KiB", "17 B".
std::string bytesText(int64_t bytes);
} // namespace report

/// Classes, the peak and what it consists of, time, bound and choices.
std::string planSummary(const llvm::json::Object &plan);

/// One HTML page with everything inside: no script, style or image is loaded.
std::string planPage(const llvm::json::Object &plan, const ReportTitle &title);

/// A snapshot as torch.cuda.memory writes it, in JSON, for
/// pytorch.org/memory_viz: one segment, the arena; each buffer an allocation.
std::string planSnapshot(const llvm::json::Object &plan);

} // namespace kiln

#endif // KILN_REPORT_PLANREPORT_H
