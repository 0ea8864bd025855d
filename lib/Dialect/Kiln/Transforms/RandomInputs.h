//===- RandomInputs.h - What random ops read --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_RANDOMINPUTS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_RANDOMINPUTS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Returns the input `rng` of a program, [microbatches, 3]. Adds it if the
/// program has none.
mlir::BlockArgument getOrAddRng(ProgramOp program, int64_t microbatches = 1);

/// Returns the input of the program with the index of this rank on the axis tp.
/// Adds it if there is none.
mlir::BlockArgument getOrAddTensorRank(ProgramOp program);

/// Returns the smallest key that no random op in `root` uses. Random ops with
/// equal keys would have equal masks.
int64_t firstFreeKey(mlir::Operation *root);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_RANDOMINPUTS_H
