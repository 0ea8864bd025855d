//===- StartCollectives.h - Asynchronous collectives ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_STARTCOLLECTIVES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_STARTCOLLECTIVES_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Returns the first op of the block of `op`, after `op`, that reads a result
/// of `op`, or the terminator of the block.
mlir::Operation *firstReader(mlir::Operation *op);

/// Replaces each collective of a program by its start, at the same position,
/// and a wait before the first op that reads one of its results. All-gathers of
/// states start earlier. Returns true if the program had a collective.
bool startCollectives(ProgramOp program);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_STARTCOLLECTIVES_H
