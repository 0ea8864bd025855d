//===- PlanEstimate.h - Estimates of the plans of large models --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Estimates the step time of a model in a directory without planning the whole
// model. The layers of a model have equal cost. Time and memory of a step are
// therefore extrapolated from two models with few layers, which are scheduled
// in a small part of the time.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_PLANESTIMATE_H
#define KILN_LIB_COMPILER_PLANESTIMATE_H

#include "kiln/Compiler/Compile.h"

namespace kiln {

struct PlanEstimate {
  /// Estimated lower bound, in seconds, on the step time of all plans that fit
  /// the budget.
  double bound = 0;
  /// True if the plan that recomputes and offloads nothing probably fits.
  bool probablyFits = false;
};

/// Returns one estimate for each element of `options`. All elements must have
/// the same model directory. Returns an empty list if the model has few layers,
/// because planning the model then takes little time, or if the model cannot be
/// compiled.
std::vector<PlanEstimate> estimatePlans(llvm::ArrayRef<CompileOptions> options);

} // namespace kiln

#endif // KILN_LIB_COMPILER_PLANESTIMATE_H
