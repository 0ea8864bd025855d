//===- SplitCheck.h - Losses of micro-batches add up ------------*- C++ -*-===//
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

/// Checks, by evaluation, what the compiler proves of a loss before it splits
/// the batch; returns what does not hold. With s for loss_scale:
///
///   two micro-batches A, A with s    =  one batch A with 2 s     (and
///   gradients) loss(A) + loss(B)                =  loss(A') + loss(B'),
///                                       which exchanged one sequence
std::vector<std::string> checkSplits(mlir::ModuleOp forward, uint64_t seed);

} // namespace kiln

#endif // KILN_TEST_DIFFERENTIAL_SPLITCHECK_H
