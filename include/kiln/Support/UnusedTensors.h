//===- UnusedTensors.h - Tensors of a file that a model lacks ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A weight file that holds more than a model needs may be the file of another
// model. So every further tensor is an error unless it is known to carry
// nothing (a mask, a table that the model computes itself), repeats a tensor
// that the model has tied, value for value, or is named by the user.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_UNUSEDTENSORS_H
#define KILN_SUPPORT_UNUSEDTENSORS_H

#include "kiln/Support/ModelWeights.h"

namespace kiln::support {

/// Tensors that a weight file may hold although the model does not use them.
struct UnusedTensorRules {
  /// Patterns of names: `*` stands for a number.
  std::vector<std::string> known;
  /// Names that the user lets pass; each must be in the file and unused.
  std::vector<std::string> ignored;
};

/// Succeeds when `weights`, in which the tensors `found` were matched with
/// `expected`, holds nothing else that matters. Compares the values of tied
/// tensors as they are stored.
Status checkUnusedTensors(const ModelWeights &weights,
                          const std::vector<ExpectedTensor> &expected,
                          const std::vector<const TensorInfo *> &found,
                          const UnusedTensorRules &rules);

/// The names of tensors that checkUnusedTensors refuses whatever their values,
/// without rules.ignored.
std::vector<std::string>
findUnusedTensors(const ModelWeights &weights,
                  const std::vector<ExpectedTensor> &expected,
                  const std::vector<const TensorInfo *> &found,
                  const std::vector<std::string> &known);

/// True if `name` matches `pattern`, in which `*` stands for a number.
bool matchesPattern(std::string_view name, std::string_view pattern);

} // namespace kiln::support

#endif // KILN_SUPPORT_UNUSEDTENSORS_H
