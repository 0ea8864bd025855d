//===- ReduceGradients.h - Sums over data-parallel ranks --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_REDUCEGRADIENTS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_REDUCEGRADIENTS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// A value of a program, and where ops that read it are placed.
struct PlacedValue {
  mlir::Value value;
  /// Readers follow this op; if it is null, they are at the end of the program.
  mlir::Operation *readAfter = nullptr;
};

/// Sums `loss` and the values of `gradients` over the ranks of data
/// parallelism, and replaces each of them by its sum.
///
/// A bucket is a kiln.all_reduce of gradients with one element type that are
/// complete one after another and have at least `bucketBytes` bytes, if there
/// are as many. It follows the definition of the last of its gradients. The
/// readers of its sums follow the next bucket: the transfer of a bucket overlaps
/// with the ops that compute the gradients of the next one.
void reduceGradients(mlir::Value &loss,
                     llvm::MutableArrayRef<PlacedValue *> gradients,
                     int64_t bucketBytes);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_REDUCEGRADIENTS_H
