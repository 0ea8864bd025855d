//===- SequenceAnalysis.h - Analysis of sequences ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_SEQUENCEANALYSIS_H
#define KILN_DIALECT_KILN_IR_SEQUENCEANALYSIS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// A forward dataflow analysis over a forward program, which is a single block.
/// Each op is visited once, after the ops that define its operands. See
/// Sequences.h.
class SequenceAnalysis {
public:
  /// Initializes the lattice elements of the program's inputs. The inputs must
  /// already have names.
  explicit SequenceAnalysis(ProgramOp program);

  void visit(mlir::Operation &op);
  const SequenceFact &factOf(mlir::Value value) const {
    return facts.find(value)->second;
  }

private:
  int64_t batch = 1; ///< Number of sequences of the program.
  llvm::DenseMap<mlir::Value, SequenceFact> facts;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_SEQUENCEANALYSIS_H
