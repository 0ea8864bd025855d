//===- SplitCheck.h - Additivity of micro-batch losses ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_DIFFERENTIAL_SPLITCHECK_H
#define KILN_TEST_DIFFERENTIAL_SPLITCHECK_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <string>
#include <vector>

namespace kiln {

/// Checks, by evaluation, the properties of a loss that the compiler proves
/// before it splits the batch. Returns the violations. With s = loss_scale:
///
///   - Two micro-batches A, A with scale s equal one batch A with scale 2 s, in
///     the loss and the gradients.
///   - loss(A) + loss(B) is unchanged if A and B exchange one sequence.
std::vector<std::string> checkSplits(mlir::ModuleOp forward, uint64_t seed);

} // namespace kiln

#endif // KILN_TEST_DIFFERENTIAL_SPLITCHECK_H
