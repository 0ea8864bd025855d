//===- VendorEpilogues.h - What a gpu's library fuses ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_VENDOREPILOGUES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_VENDOREPILOGUES_H

#include "mlir/IR/BuiltinOps.h"

namespace kiln {

/// Makes one op of every product and what the library of a gpu can add to it.
/// Rounds less often, so it belongs to what fixes numerics.
void fuseLibraryEpilogues(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_VENDOREPILOGUES_H
