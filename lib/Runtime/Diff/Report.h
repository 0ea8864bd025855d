//===- Report.h - What kiln-diff says ---------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The findings of one step, judged, and their text.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_DIFF_REPORT_H
#define KILN_LIB_RUNTIME_DIFF_REPORT_H

#include "OpDifference.h"
#include "TensorDifference.h"
#include "TrainingProcess.h"

#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// The terms of a rounding bound.
struct RoundingTerms {
  double eps = 0;
  double longestSum = 1;
  double norm = 0;
  double sensitivity = 0;
  double bound() const {
    return roundingBound(eps, longestSum, norm, sensitivity);
  }
};

/// One number of a step, or one tensor, that differs.
struct Finding {
  TrainedTensor tensor; ///< A number has the role "number".
  TensorDifference difference;
  RoundingTerms rounding;

  /// Difference / bound; infinite when there is nothing to compare with.
  double share() const;
  bool explained() const { return share() <= 1; }
};

/// What differs after one step; step 0 is the start.
struct StepFindings {
  int64_t step = 0;
  std::vector<Finding> numbers; ///< Loss, gradient norm.
  std::vector<Finding> tensors; ///< In the order in which A computes them.
  int64_t compared = 0;         ///< Tensors, differing or not.
  std::optional<OpDifference> op;
  bool opsWatched = false;

  bool explained() const;
  /// The finding with the largest share.
  const Finding &worst() const;
};

/// "parameter 'wte.weight'".
std::string titleOf(const TrainedTensor &tensor);

/// The lines of a step that differs.
std::string reportOf(const StepFindings &findings);

/// The longest sum that a step of this model can hold: tokens of a batch,
/// vocabulary, or the widest dimension of a tensor.
double longestSumOf(const TrainedModel &model);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_REPORT_H
