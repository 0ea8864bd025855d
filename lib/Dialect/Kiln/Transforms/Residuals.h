//===- Residuals.h - Values kept for the backward pass ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A residual is a value of the forward pass that ops of the backward pass read,
// directly or through views. It is not a view itself.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_RESIDUALS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_RESIDUALS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "llvm/ADT/MapVector.h"

namespace kiln {

/// A read of a residual, or of a view of it, by a backward op.
struct ResidualRead {
  mlir::Operation *reader;
  mlir::Value through;
};

/// The reads of each residual in program order. The residuals are in program
/// order, too.
using ResidualMap =
    llvm::MapVector<mlir::Value, llvm::SmallVector<ResidualRead>>;

/// Returns the number of sequences whose values a program computes.
int64_t countSequences(ProgramOp program);

/// Returns the op that starts the backward pass, or null.
mlir::Operation *findBackwardPhase(ProgramOp program);

/// Returns the residuals of a program whose backward pass follows the op
/// `phase`. States and constants are not residuals.
ResidualMap findResiduals(ProgramOp program, mlir::Operation *phase);

/// Describes an encoding of a residual, which has `encodedBytes` bytes, for
/// plans and reports. `name` is the name of the encoding, such as "q8".
EncodedAttr describeEncoding(mlir::Value residual, llvm::StringRef name,
                             bool lossy, int64_t encodedBytes);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_RESIDUALS_H
