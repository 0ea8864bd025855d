//===- NarrowReads.h - Reads of narrow parameters ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_NARROWREADS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_NARROWREADS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Replaces the uses of `wide`, a parameter of f32, for which `replaces`
/// returns true (all uses if it is null) by `narrow`, the same parameter in a
/// narrower type: casts read the narrow value, lookups return narrow rows,
/// which are then converted, and other users read a cast to the wide type.
void replaceByNarrow(
    mlir::Value wide, mlir::Value narrow,
    llvm::function_ref<bool(mlir::OpOperand &)> replaces = nullptr);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_NARROWREADS_H
