//===- Epilogues.h - Row dispatches on the tiles of products ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_EPILOGUES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_EPILOGUES_H

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

namespace kiln {

/// Moves row dispatches of a block into dispatches of family gemm with the
/// products that they read. `phase`, which may be null, separates the forward
/// from the backward ops: none moves across it.
void formEpilogues(mlir::Block &block, mlir::Operation *phase,
                   RowPrograms &rowPrograms);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_EPILOGUES_H
