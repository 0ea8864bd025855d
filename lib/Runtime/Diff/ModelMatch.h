//===- ModelMatch.h - Compatibility of two executables ----------*- C++ -*-===//
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

/// The indexes of one tensor in the tensor lists of two models, A and B.
struct TensorPair {
  size_t a = 0, b = 0;
};

/// Pairs the tensors of A and B by name, in the order of A. The result contains
/// every state, and every gradient that both executables store. Fails with
/// ExitCode::BadInput and a one-line error if the models, the tensor shapes or
/// the step numbers differ.
Result<std::vector<TensorPair>> matchModels(const TrainedModel &a,
                                            const TrainedModel &b);

/// Returns one line for each compile option whose values in A and B differ, and
/// one line if their libraries differ.
std::vector<std::string> differentBuilds(const TrainedModel &a,
                                         const TrainedModel &b);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_MODELMATCH_H
