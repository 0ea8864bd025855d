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

/// Merges each row dispatch of a block with a matmul whose result it reads, if
/// possible. The merged dispatch has the family 'gemm'. Does not merge a
/// forward op with a backward op.
void formTileEpilogues(mlir::Block &block, RowPrograms &rowPrograms);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_TILEEPILOGUES_H
