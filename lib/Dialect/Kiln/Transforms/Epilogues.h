//===- Epilogues.h - Formation of GEMM epilogues ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Merges a GEMM and ops that process its result into one op. The target
// determines the kind of the epilogue, and the kind determines when the
// epilogue is formed:
//
//   Vendor  An epilogue of the vendor library changes how results are rounded.
//           kiln-set-numerics forms it before planning, so that every memory
//           plan computes the same bits.
//   Tiles   An epilogue on tiles does not change results, but depends on the
//           row dispatches. kiln-form-dispatches forms it after planning.
//
// GemmOpInterface describes both kinds.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_EPILOGUES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_EPILOGUES_H

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

namespace kiln {

/// Forms the epilogues of a module if `kind` is the kind that the target uses.
/// Fails if the target of the module is unknown.
llvm::LogicalResult formEpilogues(mlir::ModuleOp module, EpilogueKind kind,
                                  RowPrograms &rowPrograms);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_EPILOGUES_H
