//===- SplitLoss.cpp - Losses of micro-batches ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A dataflow analysis computes how each value depends on the sequences of the
// batch and on `loss_scale` (Sequences.h). The loss is then split into terms
// along ops that are linear in all operands together. The property that the
// analysis proves for a term determines the treatment of the term:
//
//   Total, degree 1     a sum over the sequences that is linear in loss_scale:
//                       the terms of the micro-batches add up to the term of
//                       the batch
//   Shared, degree 0    a term that is equal in each of n micro-batches: it is
//                       divided by n
//   any other           the proof fails
//
// A Total term of degree 0, that is, a sum over the sequences without the
// factor loss_scale, is rejected. The program of a micro-batch divides such a
// sum by a constant, the number of rows of the micro-batch. The loss of the
// batch divides the sum by the number of rows of the batch, so the terms of the
// micro-batches do not add up to the term of the batch.
//
//===----------------------------------------------------------------------===//

#include "SplitLoss.h"

#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/IR/SequenceAnalysis.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace kiln;

namespace {

class LossSplitter {
public:
  LossSplitter(ProgramOp program, int64_t microbatches)
      : program(program), microbatches(microbatches), sequences(program) {}
  LogicalResult run();

private:
  LogicalResult checkWrites();
  LogicalResult visitTerm(OpOperand &term);
  LogicalResult refuse(Operation *op, StringRef reason);

  ProgramOp program;
  int64_t microbatches;
  SequenceAnalysis sequences;
  llvm::SmallSetVector<OpOperand *, 4> shared; ///< Terms of the loss that are
                                               ///< equal in all micro-batches.
  llvm::SmallPtrSet<Operation *, 8> visited;   ///< Linear ops.
};

} // namespace

LogicalResult LossSplitter::refuse(Operation *op, StringRef reason) {
  return op->emitOpError(reason)
         << ", so the losses of " << microbatches
         << " micro-batches do not add up to the loss of the batch; use one "
            "micro-batch, or a loss in which each term is either independent "
            "of all inputs or loss_scale times a sum over the sequences";
}

/// Checks that the micro-batches, which may belong to different data-parallel
/// ranks, write the same value to each state. The states of the ranks would
/// otherwise differ, because nothing sums or averages these values.
LogicalResult LossSplitter::checkWrites() {
  for (WriteOp write : program.getBlock().getOps<WriteOp>())
    if (!sequences.factOf(write.getValue()).isShared())
      return write.emitOpError("writes ")
             << write.getStateAttr()
             << " with a value that may differ between the " << microbatches
             << " parts of the batch (micro-batches times data-parallel "
                "ranks); use one micro-batch and one data-parallel rank, or "
                "do not write the state";
  return success();
}

LogicalResult LossSplitter::visitTerm(OpOperand &term) {
  const SequenceFact &fact = sequences.factOf(term.get());
  Operation *op = term.get().getDefiningOp();
  if (!op) // The term is an input of the program.
    op = program;
  switch (fact.kind) {
  case SequenceFact::Kind::Total:
    if (fact.degree == 1)
      return success();
    return refuse(op, fact.degree == 0 ? "is a sum over the sequences without "
                                         "the factor loss_scale"
                                       : "is not linear in loss_scale");
  case SequenceFact::Kind::Shared:
    if (fact.degree != 0)
      return refuse(op, "depends on loss_scale but on no sequence");
    shared.insert(&term);
    return success();
  case SequenceFact::Kind::Mixed:
    if (!visited.insert(op).second)
      return success();
    for (OpOperand &operand : op->getOpOperands())
      if (failed(visitTerm(operand)))
        return failure();
    return success();
  case SequenceFact::Kind::PerSequence:
    return refuse(op, "has a separate result for each sequence instead of a "
                      "sum over the sequences");
  case SequenceFact::Kind::Opaque:
    return refuse(fact.op, fact.reason);
  }
  llvm_unreachable("unknown kind of fact");
}

LogicalResult LossSplitter::run() {
  for (Operation &op : program.getBlock().without_terminator())
    sequences.visit(op);
  if (failed(checkWrites()) ||
      failed(visitTerm(program.getReturn()->getOpOperand(0))))
    return failure();
  OpBuilder builder(program.getContext());
  for (OpOperand *term : shared) {
    builder.setInsertionPoint(term->getOwner());
    Value value = term->get();
    auto share = ScaleOp::create(
        builder, value.getLoc(), value.getType(), value,
        builder.getF64FloatAttr(1.0 / static_cast<double>(microbatches)));
    setLayer(share, getDefiningLayer(value));
    term->set(share);
  }
  return success();
}

LogicalResult kiln::splitLoss(ProgramOp program, int64_t microbatches) {
  // Autodiff rejects a program that does not return exactly one loss.
  if (microbatches == 1 || program.getReturn().getNumOperands() != 1)
    return success();
  return LossSplitter(program, microbatches).run();
}
