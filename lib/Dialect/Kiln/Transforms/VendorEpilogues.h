//===- VendorEpilogues.h - Epilogues of the vendor library ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_VENDOREPILOGUES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_VENDOREPILOGUES_H

#include "mlir/IR/BuiltinOps.h"

namespace kiln {

/// Merges the matmuls of a module with the ops that the vendor library can
/// compute as epilogues. This is part of kiln-set-numerics, because a merged op
/// rounds fewer values than the separate ops and therefore computes different
/// bits.
void formVendorEpilogues(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_VENDOREPILOGUES_H
