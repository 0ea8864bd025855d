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

/// Returns the input `rng` of a program. If there is none, adds it with the
/// shape [microbatches, 3].
mlir::BlockArgument getOrAddRng(ProgramOp program, int64_t microbatches = 1);

/// Returns the input of a program that has the index of this rank on the axis
/// tp. Adds the input if there is none.
mlir::BlockArgument getOrAddTensorRank(ProgramOp program);

/// Returns a key that is greater than the keys of all random ops in `root`.
/// Random ops with equal keys would have equal masks.
int64_t firstFreeKey(mlir::Operation *root);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_RANDOMINPUTS_H
