//===- Epilogues.h - Form the epilogues of GEMMs ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GEMM and the ops that work on its result become one op. The target decides
// which kind of epilogue its GEMMs have; the kind decides when it is formed:
//
//   Vendor  changes how results are rounded. It is formed with the numerics,
//           from the graph alone, so that every plan of a module has the same
//           bits.
//   Tiles   changes no bit, but must know which kernels there are. It is formed
//           with the dispatches, after planning.
//
// After that, GemmOpInterface describes both.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_EPILOGUES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_EPILOGUES_H

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

namespace kiln {

/// Forms the epilogues of a module if they are of this kind. Fails if the
/// module's target is unknown.
llvm::LogicalResult formEpilogues(mlir::ModuleOp module, EpilogueKind kind,
                                  RowPrograms &rowPrograms);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_EPILOGUES_H
