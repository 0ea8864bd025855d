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

/// Replaces `wide`, the value of a parameter, by `narrow`, the value of the
/// same parameter in a narrower type. Replaces the uses for which `replaces`
/// returns true, or all uses if `replaces` is null. Casts read `narrow`.
/// Embedding lookups return narrow rows, which are then converted. All other
/// users read a cast of `narrow` to the type of `wide`.
void replaceByNarrow(
    mlir::Value wide, mlir::Value narrow,
    llvm::function_ref<bool(mlir::OpOperand &)> replaces = nullptr);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_NARROWREADS_H
