//===- TileEpilogues.h - Epilogues on the tiles of matmuls ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_TILEEPILOGUES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_TILEEPILOGUES_H

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

namespace kiln {

/// Merges row dispatches of a block with the matmuls that they read into
/// dispatches of family gemm. Does not move a dispatch between the forward and
/// the backward pass.
void formTileEpilogues(mlir::Block &block, RowPrograms &rowPrograms);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_TILEEPILOGUES_H
