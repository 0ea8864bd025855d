//===- ReduceGradients.h - Sums over data-parallel ranks --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_REDUCEGRADIENTS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_REDUCEGRADIENTS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/IR/Owners.h"

namespace kiln {

/// A value of a program, and where ops that read it are placed.
struct PlacedValue {
  mlir::Value value;
  /// Readers of the value follow this op, or are at the end of the program if
  /// the op is null.
  mlir::Operation *readAfter = nullptr;
};

/// Sets the insertion point for a reader of a gradient.
void placeReader(mlir::OpBuilder &builder, const PlacedValue &gradient,
                 ProgramOp program);

/// Sets the insertion point for the update of a parameter in a step without
/// clipping: the earliest position at which the gradient can be read and that
/// follows all readers of `entry`, the value of the parameter before the
/// update. The memory of the gradient can then be released as early as
/// possible.
void placeUpdateEarly(mlir::OpBuilder &builder, const PlacedValue &gradient,
                      mlir::Value entry);

/// A gradient that ranks sum.
struct SummedGradient {
  PlacedValue *gradient;
  /// The type of the shard of the sum that each rank needs; null if each rank
  /// needs the whole sum.
  mlir::RankedTensorType shard;
  /// The rank whose shard is the whole sum, or kNoOwner.
  int64_t owner = kNoOwner;
};

/// Returns the sum of a loss over the ranks of data parallelism.
mlir::Value reduceLoss(mlir::Value loss);

/// Returns the average of a scalar over `ranks` ranks of data parallelism.
mlir::Value averageOverRanks(mlir::Value scalar, int64_t ranks);

/// Sums the values of `gradients`, which are defined in `block`, over the ranks
/// of `axis`, and replaces each value by its sum, or by this rank's shard of
/// the sum. Either all gradients have shards, or none, and either all have
/// owners (ranks that alone receive the sum), or none.
///
/// Gradients are summed in buckets. A bucket has gradients of one element type
/// that are complete one after another, and has at least `bucketBytes` bytes,
/// except for the last bucket of each type. The collective of a bucket, a
/// kiln.all_reduce or a kiln.reduce_scatter, follows the definition of its last
/// gradient. The readers of the sums follow the collective of the next bucket,
/// so that transfers overlap with the ops that compute gradients.
void reduceGradients(mlir::Block &block,
                     llvm::ArrayRef<SummedGradient> gradients,
                     int64_t bucketBytes, llvm::StringRef axis);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_REDUCEGRADIENTS_H
