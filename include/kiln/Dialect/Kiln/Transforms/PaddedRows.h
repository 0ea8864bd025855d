//===- PaddedRows.h - Which matrices may have gaps --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_PADDEDROWS_H
#define KILN_DIALECT_KILN_TRANSFORMS_PADDEDROWS_H

#include "mlir/IR/Value.h"

namespace kiln {

class RowPrograms;

/// Of a result in a dispatched program: whether there may be gaps between its
/// rows in memory, and a product that it belongs to may gain by them. Whoever
/// writes or reads it is a product or a row kernel that steps over gaps.
bool mayHavePaddedRows(mlir::OpResult value, RowPrograms &rowPrograms);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_PADDEDROWS_H
