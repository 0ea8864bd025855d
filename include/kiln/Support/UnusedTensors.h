//===- UnusedTensors.h - Unused tensors of weight files ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A weight file with more tensors than a model uses may belong to another
// model. Every additional tensor is therefore an error, unless it is known to
// contain no trained values (a mask, or a table that the model computes),
// equals a tensor that it is tied to in the model, or is named by the user.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_UNUSEDTENSORS_H
#define KILN_SUPPORT_UNUSEDTENSORS_H

#include "kiln/Support/ModelWeights.h"

namespace kiln::support {

/// Tensors that a weight file may contain although the model does not use them.
struct UnusedTensorRules {
  /// Name patterns, in which `*` matches a number.
  std::vector<std::string> known;
  /// Names given by the user; each must be in the file and unused.
  std::vector<std::string> ignored;
};

/// Succeeds if `weights` contains no unused tensors except those that `rules`
/// permits. `found` has the tensor of the file for each element of `expected`;
/// see ModelWeights::match(). Compares the stored values of tied tensors.
Status checkUnusedTensors(const ModelWeights &weights,
                          const std::vector<ExpectedTensor> &expected,
                          const std::vector<const TensorInfo *> &found,
                          const UnusedTensorRules &rules);

/// Returns the names of the tensors that checkUnusedTensors() rejects if
/// UnusedTensorRules::ignored is empty. Exception: does not compare values, and
/// therefore does not include tied tensors that differ only in their values.
std::vector<std::string>
findUnusedTensors(const ModelWeights &weights,
                  const std::vector<ExpectedTensor> &expected,
                  const std::vector<const TensorInfo *> &found,
                  const std::vector<std::string> &known);

/// Returns true if `name` matches `pattern`, in which `*` matches a number.
bool matchesPattern(std::string_view name, std::string_view pattern);

} // namespace kiln::support

#endif // KILN_SUPPORT_UNUSEDTENSORS_H
