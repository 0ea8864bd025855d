//===- TileEpilogues.h - Row dispatches on the tiles of matmuls -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_TILEEPILOGUES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_TILEEPILOGUES_H

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

namespace kiln {

/// Moves row dispatches of a block into dispatches of family gemm, with the
/// matmuls that they read. None moves from the backward to the forward pass.
void formTileEpilogues(mlir::Block &block, RowPrograms &rowPrograms);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_TILEEPILOGUES_H
