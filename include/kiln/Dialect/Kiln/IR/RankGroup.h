//===- RankGroup.h - Ranks that are evaluated together ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference evaluation of collectives needs the tensors of all ranks. Each
// rank is evaluated in a thread or process of its own, which has a
// RankGroupScope.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_RANKGROUP_H
#define KILN_DIALECT_KILN_IR_RANKGROUP_H

#include "kiln/Dialect/Kiln/IR/HostTensor.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

class RankGroup {
public:
  virtual ~RankGroup() = default;
  /// Returns the index of the calling thread or process on an axis of the mesh.
  virtual int64_t rank(llvm::StringRef axis) const = 0;
  /// Replaces each tensor by the sum of this tensor over all ranks of an axis.
  /// All ranks of the axis must call this function with tensors of the same
  /// types. Returns false if another rank has failed.
  virtual bool sum(llvm::StringRef axis,
                   llvm::MutableArrayRef<HostTensor> tensors) = 0;
};

/// Returns the group of ranks of the calling thread, or null if it has none.
RankGroup *currentRankGroup();

/// Evaluates a collective for the calling rank. The caller has set the types of
/// `results`. If `owners` is given, the shard of tensor i on the rank owners[i]
/// is the whole tensor, and the other ranks have no shard of tensor i.
llvm::LogicalResult evaluateCollective(
    mlir::Operation *op, Collective collective, llvm::StringRef axis,
    llvm::ArrayRef<const HostTensor *> operands,
    llvm::MutableArrayRef<HostTensor> results,
    std::optional<llvm::ArrayRef<int64_t>> owners = std::nullopt);

/// Returns the shard of `whole` that the calling rank has on `axis`. The shard
/// has `elements` elements.
llvm::FailureOr<std::vector<double>> evaluateShard(mlir::Operation *op,
                                                   llvm::StringRef axis,
                                                   const HostTensor &whole,
                                                   int64_t elements);

/// Makes `ranks` the group of ranks of the calling thread.
class RankGroupScope {
public:
  explicit RankGroupScope(RankGroup &ranks);
  ~RankGroupScope();
  RankGroupScope(const RankGroupScope &) = delete;
  RankGroupScope &operator=(const RankGroupScope &) = delete;

private:
  RankGroup *before;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_RANKGROUP_H
