//===- RowPrograms.h - Analysis that caches row programs --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An analysis that caches row programs: the program of a group of ops is built
// when a pass first requests it. Passes obtain the analysis by
// getAnalysis<RowPrograms>().
//
// The key of a program consists of the contents of the ops from which it was
// built (their names, attributes, types and data flow), not of their addresses.
// No entry can therefore become stale: a dispatch that was changed, or that was
// created at the address of an erased dispatch, has different contents and thus
// a different entry. Equal dispatches share an entry. The analysis stays valid
// whatever a pass changes (see isInvalidated()).
//
// Verifiers and emitters do not use the analysis but call buildRowProgram(). A
// verifier must not rely on state computed by passes. An emitter reads each
// kernel only once, so that a cache would not save time.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_ROWPROGRAMS_H
#define KILN_DIALECT_KILN_IR_ROWPROGRAMS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <unordered_map>

namespace kiln {

/// The ops from which a row program is built.
struct RowOps {
  llvm::SmallVector<mlir::Operation *> ops; ///< In execution order.
  /// The operands of the row program, indexed by Node::operand.
  llvm::SmallVector<mlir::Value> operands;
  /// The results of the row program, indexed by Store::result.
  llvm::SmallVector<mlir::Value> results;
  int64_t rows = 0, cols = 0;
};

/// Returns the ops of a dispatch.
RowOps rowOpsOf(DispatchOp dispatch);
/// Returns the ops of the body of a kernel or dispatch, with `rows` x `cols` as
/// the row space.
RowOps rowOpsOf(mlir::Block &body, int64_t rows, int64_t cols);

/// Builds the row program of `source` without the cache of RowPrograms. Fails
/// if one of the ops cannot be expressed on the row space of `source`. If
/// row::findFault() rejects the program, emits an error at the last op.
llvm::FailureOr<row::RowProgram> buildRowProgram(const RowOps &source);

class RowPrograms {
public:
  RowPrograms();
  /// Constructor required by MLIR's analysis manager. Programs are built on
  /// demand.
  explicit RowPrograms(mlir::Operation *) : RowPrograms() {}
  ~RowPrograms();

  /// Returns the program, or null if buildRowProgram() fails. The pointer is
  /// valid for the lifetime of the analysis.
  const row::RowProgram *get(const RowOps &source);
  /// Returns the program of a dispatch of the family 'row' or 'gemm', and null
  /// for dispatches of all other families.
  const row::RowProgram *get(DispatchOp dispatch);

  /// Returns the number of programs that were built.
  size_t size() const { return count; }

  template <typename Preserved> bool isInvalidated(const Preserved &) const {
    return false;
  }

private:
  struct Entry;
  /// Entries whose ops have the same hash.
  using Bucket = llvm::SmallVector<std::unique_ptr<Entry>, 1>;
  std::unordered_map<uint64_t, Bucket> entries;
  size_t count = 0;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_ROWPROGRAMS_H
