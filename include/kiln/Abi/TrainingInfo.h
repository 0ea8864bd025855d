//===- TrainingInfo.h - Choices that decide a trajectory --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The choices inside a training program that decide its trajectory: how
// parameters are updated, what is dropped at random, and which residuals are
// estimates. The compiler derives them from the ops of the program, not from
// its flags, so that an executable and the interpreter describe one program
// alike.
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

/// How a set of parameters is updated.
struct UpdateRule {
  std::string optimizer; ///< As in `kilnc --optimizer`: "adamw", "sgd", ...
  std::map<std::string, double> options; ///< "beta1", "weight_decay", ...
  /// The parameters that weight_decay applies to: "matrices" (two or more
  /// dimensions; the others have none), "all", or, in a program that was not
  /// made by kilnc, "vectors".
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
  std::vector<UpdateRule> updates; ///< Sorted, without duplicates; usually one.
  /// Probabilities other than 0, sorted, without duplicates.
  std::vector<double> dropout;          ///< Of elements of activations.
  std::vector<double> attentionDropout; ///< Of the weights of attention.
  /// How many residuals are kept as each encoding that changes gradients.
  std::map<std::string, int64_t> lossy;
};

} // namespace kiln::abi

#endif // KILN_ABI_TRAININGINFO_H
