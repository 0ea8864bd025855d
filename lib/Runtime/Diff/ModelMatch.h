//===- ModelMatch.h - Are two executables of one model? ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_DIFF_MODELMATCH_H
#define KILN_LIB_RUNTIME_DIFF_MODELMATCH_H

#include "TrainingProcess.h"
#include "kiln/Support/Status.h"

#include <string>
#include <vector>

namespace kiln::runtime {

/// Indexes of one tensor on both sides.
struct TensorPair {
  size_t a = 0, b = 0;
};

/// Pairs the tensors by name, in the order of A: every state, and the gradients
/// that both keep. Fails with ExitCode::BadInput and one line when the models,
/// their shapes or the steps are not the same.
Result<std::vector<TensorPair>> matchModels(const TrainedModel &a,
                                            const TrainedModel &b);

/// One line for each thing that the two were built with differently.
std::vector<std::string> differentBuilds(const TrainedModel &a,
                                         const TrainedModel &b);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_MODELMATCH_H
