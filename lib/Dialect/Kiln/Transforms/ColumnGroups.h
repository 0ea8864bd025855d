//===- ColumnGroups.h - Values whose columns ranks can divide ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensor parallelism divides the columns of values between two matmuls, as in
//
//   %h = kiln.matmul %x, %w1       each rank has some columns of @w1 and %h
//   %a = kiln.gelu %h              and of %a,
//   %y = kiln.matmul %a, %w2       and the same rows of @w2; %y is a summand
//
// The values that ops between the matmuls connect form a *group*: either the
// columns of all of these values are divided, in the same way, or the columns
// of none. The matmuls that define values of a group are its *sources*, and the
// matmuls that read values of the group as left operands are its *sinks*. A
// group cannot be divided if an op that is not a sink combines different
// columns of one of its values.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_COLUMNGROUPS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_COLUMNGROUPS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <vector>

namespace kiln {

/// The columns of each value in a group consist of blocks of `extent` columns.
/// Rank r has the columns [r * part, (r + 1) * part) of each block. Columns
/// beyond the end of the block are zeros.
struct ColumnGroup {
  int64_t extent = 0;
  int64_t part = 0;
  /// The number of adjacent columns that must be on the same rank, such as the
  /// columns of a head.
  int64_t unit = 1;
  bool isDivided = false;

  // Used by the analysis.
  bool isPinned = false; ///< True if the group cannot be divided.
  bool keepsZero = true; ///< True if columns of zeros remain zero.
  int64_t position = -1; ///< Position of the first of `sources`, or -1.
  llvm::SmallVector<MatmulOp, 2> sources, sinks;
  llvm::SmallVector<mlir::Value, 4> values;
};

class ColumnGroups {
public:
  /// Finds the groups of values of a forward program, and chooses the groups
  /// that are divided over `ranks` ranks.
  ColumnGroups(ProgramOp program, mlir::SymbolTable &symbols, int64_t ranks);

  /// Returns the group of a value if the group is divided. Otherwise returns
  /// null.
  const ColumnGroup *divided(mlir::Value value) const;
  /// Returns the values whose columns are divided.
  llvm::SmallVector<mlir::Value> dividedValues() const;
  /// Returns an attention op that could be divided, but has fewer key heads
  /// than there are ranks; null if there is none.
  AttentionOp tooFewHeads();

private:
  int32_t find(int32_t index) const;
  int32_t indexOf(mlir::Value value);
  ColumnGroup &groupOf(mlir::Value value) {
    return groups[find(indexOf(value))];
  }
  void merge(mlir::Value a, mlir::Value b);
  void pin(mlir::Value value);
  void setExtent(mlir::Value value, int64_t extent, int64_t unit);

  void visit(mlir::Operation *op);
  void visitMatmul(MatmulOp matmul);
  void visitBroadcast(BroadcastOp broadcast);
  void visitSlice(SliceOp slice);
  void visitAttention(AttentionOp attention);
  bool isWeight(mlir::Value value) const;

  bool choosePart(ColumnGroup &group);
  bool canDivide(llvm::ArrayRef<int32_t> set);
  void divide();

  ProgramOp program;
  mlir::SymbolTable &symbols;
  int64_t ranks;
  llvm::DenseSet<mlir::StringAttr> written; ///< States that programs write.
  /// The attention ops with fewer key heads than ranks.
  llvm::SmallVector<AttentionOp> fewHeads;
  llvm::DenseMap<mlir::Value, int32_t> indexes;
  std::vector<int32_t> parents;    ///< Union-find parent of each index.
  std::vector<ColumnGroup> groups; ///< Valid for roots only.
  // Pairs of values. The groups of both values are divided, or neither is.
  using Links = std::vector<std::pair<mlir::Value, mlir::Value>>;
  Links headLinks; ///< Queries and keys with different numbers of heads.
  /// Queries of attention ops with dropout. All of these ops read the same
  /// random state, and it contains the index of the rank only if the queries
  /// are divided. Therefore the queries of all of these ops are divided, or
  /// those of none.
  Links maskLinks;
  AttentionOp masked; ///< The last attention op with dropout.
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::StringAttr, int64_t> reads; ///< Read count by state.
};

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_COLUMNGROUPS_H
