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

/// A parameter and its layer. The layer is null if the parameter belongs to no
/// layer.
struct OwnedTensor {
  StateOp state;
  LayerAttr layer;
  /// The gradient whose sum over the ranks is computed for the parameter, and
  /// for all other parameters with this gradient. Null if the parameter has a
  /// sum of its own.
  mlir::Value gradient;
};

/// Assigns each parameter to a rank, its owner. All parameters of a layer have
/// the same owner, and so have all parameters with the same gradient. Layers
/// are assigned in descending order of size, and layers of equal size in the
/// order of `tensors`. A layer is assigned to the rank with the fewest bytes so
/// far, or to the first of several such ranks.
llvm::DenseMap<mlir::StringAttr, int64_t>
giveToOwners(llvm::ArrayRef<OwnedTensor> tensors, int64_t ranks);

/// Returns rank 0 as the owner of each parameter.
llvm::DenseMap<mlir::StringAttr, int64_t>
giveToServer(llvm::ArrayRef<OwnedTensor> tensors);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_ASSIGNOWNERS_H
