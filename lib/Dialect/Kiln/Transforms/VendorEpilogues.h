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

/// Forms the epilogues that the vendor library computes in all GEMMs of a
/// module. They round less often, so this is part of fixing the numerics.
void formVendorEpilogues(mlir::ModuleOp module);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_VENDOREPILOGUES_H
