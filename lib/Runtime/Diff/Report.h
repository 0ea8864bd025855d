//===- Report.h - Report of kiln-diff ---------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Represents the differences between two models after a training step, compares
// them with rounding bounds, and formats them as text.
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

/// The terms of the rounding bound in TensorDifference.h.
struct RoundingTerms {
  double eps = 0;
  double longestSum = 1;
  double norm = 0;
  double sensitivity = 0;
  double bound() const {
    return roundingBound(eps, longestSum, norm, sensitivity);
  }
};

/// A tensor or a number (such as the loss) whose values differ between the two
/// compared models, A and B.
struct Finding {
  TrainedTensor tensor; ///< If the finding is a number, the role is "number".
  TensorDifference difference;
  RoundingTerms rounding;

  /// Returns the norm of the difference divided by the rounding bound, or
  /// infinity if there is no rounding bound.
  double share() const;
  bool explained() const { return share() <= 1; }
};

/// The differences between the two compared models, A and B, after one step;
/// step 0 is the initial state.
struct StepFindings {
  int64_t step = 0;
  std::vector<Finding> numbers; ///< Loss and gradient norm.
  std::vector<Finding> tensors; ///< In the order in which A computes them.
  int64_t compared = 0;         ///< Number of compared tensors.
  std::optional<OpDifference> op;
  bool opsWatched = false;

  bool explained() const;
  /// Returns the finding with the largest share() of the rounding bound, among
  /// the numbers and the tensors.
  const Finding &worst() const;
};

/// Returns the role and name of a tensor, such as "parameter 'wte.weight'".
std::string titleOf(const TrainedTensor &tensor);

/// Returns the report of a step that differs.
std::string reportOf(const StepFindings &findings);

/// Returns an upper bound on the number of terms of any sum in a step of the
/// model: the maximum of the tokens per batch, the vocabulary size, and the
/// largest dimension of any tensor.
double longestSumOf(const TrainedModel &model);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_REPORT_H
