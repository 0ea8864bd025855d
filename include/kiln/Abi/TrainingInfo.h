//===- TrainingInfo.h - Choices that decide the results ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The properties of a training program that determine the trained parameters:
// the update rules of the parameters, dropout, and the residuals that are
// stored in lossy encodings. The compiler derives them from the ops of the
// program, not from its flags, so that an executable and the interpreter report
// identical values.
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
  /// Name of the optimizer in `kilnc --optimizer`, such as "adamw".
  std::string optimizer;
  /// Values of the options by name. Names are, for example, "beta1" and
  /// "weight_decay".
  std::map<std::string, double> options;
  /// The parameters that weight_decay applies to: "matrices" (two or more
  /// dimensions), "all", or "vectors" (fewer than two dimensions), which only
  /// occurs in programs that kilnc did not generate.
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
  /// Update rules of the parameters, sorted, without duplicates.
  std::vector<UpdateRule> updates;
  /// Nonzero dropout probabilities, sorted, without duplicates.
  std::vector<double> dropout;          ///< Dropout of activations.
  std::vector<double> attentionDropout; ///< Dropout of attention weights.
  /// For each lossy encoding, the number of residuals (values that the forward
  /// pass stores for the backward pass) that are stored in this encoding.
  std::map<std::string, int64_t> lossy;
};

} // namespace kiln::abi

#endif // KILN_ABI_TRAININGINFO_H
