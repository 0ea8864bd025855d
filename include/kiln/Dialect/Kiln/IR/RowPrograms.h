//===- RowPrograms.h - The row programs of a module -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The analysis that builds the row program of every group of ops once. Passes
// obtain it by getAnalysis<RowPrograms>().
//
// A program is stored under the contents of the ops that it was built from:
// their names, attributes, types and data flow, not their addresses. Therefore
// an entry cannot become stale. A dispatch that is changed, or another one that
// is created at the address of an erased one, has other contents and with that
// another entry, and equal dispatches share one. This is why the analysis stays
// valid whatever a pass changes (isInvalidated).
//
// Verifiers build programs themselves (buildRowProgram in Kiln.h), because they
// must not rely on what a pass has computed, and so does an emitter, which
// reads each kernel once.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_ROWPROGRAMS_H
#define KILN_DIALECT_KILN_IR_ROWPROGRAMS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <unordered_map>

namespace kiln {

/// What a row program is built from.
struct RowOps {
  llvm::SmallVector<mlir::Operation *> ops; ///< in the order of execution
  llvm::SmallVector<mlir::Value> operands;  ///< by their number in loads
  llvm::SmallVector<mlir::Value> results;   ///< by their number in stores
  int64_t rows = 0, cols = 0;
};

/// The source of the program of a dispatch, as buildRowProgram describes it.
RowOps rowOpsOf(DispatchOp dispatch);
/// The same for the body of a kernel or dispatch on a space of its own.
RowOps rowOpsOf(mlir::Block &body, int64_t rows, int64_t cols);

/// Builds a program without an analysis. Fails if an op has no rows in the
/// space; a program that row::findFault refuses is an error at the last op.
llvm::FailureOr<row::RowProgram> buildRowProgram(const RowOps &source);

class RowPrograms {
public:
  RowPrograms();
  /// The constructor that MLIR calls; programs are built on demand.
  explicit RowPrograms(mlir::Operation *) : RowPrograms() {}
  ~RowPrograms();

  /// Returns the program, or null if buildRowProgram fails. The pointer is
  /// valid as long as the analysis.
  const row::RowProgram *get(const RowOps &source);
  /// The program of a dispatch of family row or gemm; null for other families.
  const row::RowProgram *get(DispatchOp dispatch);

  /// The number of programs that were built.
  size_t size() const { return count; }

  template <typename Preserved> bool isInvalidated(const Preserved &) const {
    return false;
  }

private:
  struct Entry;
  /// Entries whose sources have the same hash.
  using Bucket = llvm::SmallVector<std::unique_ptr<Entry>, 1>;
  std::unordered_map<uint64_t, Bucket> entries;
  size_t count = 0;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_ROWPROGRAMS_H
