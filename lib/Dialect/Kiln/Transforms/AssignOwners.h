//===- AssignOwners.h - Owners of parameters --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_ASSIGNOWNERS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_ASSIGNOWNERS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// A parameter, and the layer that it belongs to; null if it belongs to none.
struct OwnedTensor {
  StateOp state;
  LayerAttr layer;
};

/// Returns the rank that owns each parameter. The parameters of a layer have
/// the same owner. Layers are assigned from the largest to the smallest, and of
/// equal ones in order, to the rank that has the fewest bytes, and of several
/// the first.
llvm::DenseMap<mlir::StringAttr, int64_t>
giveToOwners(llvm::ArrayRef<OwnedTensor> tensors, int64_t ranks);

/// Returns rank 0 as the owner of each parameter.
llvm::DenseMap<mlir::StringAttr, int64_t>
giveToServer(llvm::ArrayRef<OwnedTensor> tensors);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_ASSIGNOWNERS_H
