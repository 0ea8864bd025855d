//===- TrainingInfo.h - Choices that decide a trajectory --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The properties of a training program that determine its trajectory: the
// update rules of parameters, dropout, and approximated residuals. The compiler
// derives them from the ops of the program, not from its flags, so that an
// executable and the interpreter report identical values.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_TRAININGINFO_H
#define KILN_ABI_TRAININGINFO_H

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace kiln::abi {

/// The update rule of a set of parameters.
struct UpdateRule {
  std::string optimizer; ///< As in `kilnc --optimizer`: "adamw", "sgd", ...
  std::map<std::string, double> options; ///< "beta1", "weight_decay", ...
  /// The parameters that weight_decay applies to: "matrices" (two or more
  /// dimensions), "all", or, in programs that kilnc did not generate,
  /// "vectors".
  std::string decay = "matrices";

  friend bool operator==(const UpdateRule &a, const UpdateRule &b) {
    return std::tie(a.optimizer, a.options, a.decay) ==
           std::tie(b.optimizer, b.options, b.decay);
  }
  friend bool operator<(const UpdateRule &a, const UpdateRule &b) {
    return std::tie(a.optimizer, a.options, a.decay) <
           std::tie(b.optimizer, b.options, b.decay);
  }
};

struct TrainingInfo {
  std::vector<UpdateRule> updates; ///< Sorted, without duplicates.
  /// Nonzero dropout probabilities, sorted, without duplicates.
  std::vector<double> dropout;          ///< Dropout of activations.
  std::vector<double> attentionDropout; ///< Dropout of attention weights.
  /// For each encoding that changes gradients, the number of residuals stored
  /// in it.
  std::map<std::string, int64_t> lossy;
};

} // namespace kiln::abi

#endif // KILN_ABI_TRAININGINFO_H
