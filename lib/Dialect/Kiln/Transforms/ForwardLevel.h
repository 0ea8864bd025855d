//===- ForwardLevel.h - Verification of input models ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_FORWARDLEVEL_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_FORWARDLEVEL_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Checks the invariants of the level 'forward'.
llvm::LogicalResult checkForwardLevel(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_FORWARDLEVEL_H
