//===- Report.h - Report of kiln-diff ---------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Defines the differences of one step, compares them with rounding bounds, and
// formats them as text.
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

/// A tensor, or a number such as the loss, that differs.
struct Finding {
  TrainedTensor tensor; ///< Numbers have the role "number".
  TensorDifference difference;
  RoundingTerms rounding;

  /// Returns the ratio of the difference to its bound, or infinity if there is
  /// no bound.
  double share() const;
  bool explained() const { return share() <= 1; }
};

/// The differences after one step; step 0 is the initial state.
struct StepFindings {
  int64_t step = 0;
  std::vector<Finding> numbers; ///< Loss and gradient norm.
  std::vector<Finding> tensors; ///< In the order in which A computes them.
  int64_t compared = 0;         ///< Number of compared tensors.
  std::optional<OpDifference> op;
  bool opsWatched = false;

  bool explained() const;
  /// Returns the finding with the largest share.
  const Finding &worst() const;
};

/// Returns the role and name of a tensor, such as "parameter 'wte.weight'".
std::string titleOf(const TrainedTensor &tensor);

/// Returns the report of a step that differs.
std::string reportOf(const StepFindings &findings);

/// Returns an upper bound of the length of the sums in a step of this model:
/// the tokens of a batch, the vocabulary, or the largest dimension of a tensor.
double longestSumOf(const TrainedModel &model);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_REPORT_H
