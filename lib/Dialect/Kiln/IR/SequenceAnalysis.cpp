//===- SequenceAnalysis.cpp - Analysis of sequences -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/SequenceAnalysis.h"

using namespace mlir;
using namespace kiln;

SequenceAnalysis::SequenceAnalysis(ProgramOp program) {
  for (BlockArgument argument : program.getBlock().getArguments()) {
    InputAttr input = program.getInputFact(argument.getArgNumber());
    SequenceFact &fact = facts[argument];
    if (input && input.getRole() == InputRole::LossScale) {
      fact = SequenceFact::shared(1, ~uint64_t(0));
    } else if (input &&
               (input.getRole() == InputRole::TensorRank ||
                (input.getRole() == InputRole::Data && !input.getBatchDim()))) {
      fact = SequenceFact::shared();
    } else if (input && input.getBatchDim() &&
               input.getRole() != InputRole::Rng) {
      batch = tensorTypeOf(argument).getDimSize(0);
      fact = SequenceFact::perSequence(0, 0);
    } else {
      // Inputs other than tokens, targets, loss_scale, tp_rank and declared
      // data are Opaque (no property is proved). The random state is Opaque,
      // too, but the rules of random ops ignore its SequenceFact.
      fact = SequenceFact::opaque(program, "lets its loss depend on an input "
                                           "other than tokens and targets");
    }
  }
}

void SequenceAnalysis::visit(Operation &op) {
  SmallVector<SequenceFact> operands;
  for (Value operand : op.getOperands())
    operands.push_back(factOf(operand));
  SmallVector<SequenceFact> results(op.getNumResults());
  if (auto rule = dyn_cast<SequenceOpInterface>(op))
    rule.inferSequences(operands, batch, results);
  else
    inferUnknown(&op, operands, results);
  for (auto [value, fact] : llvm::zip_equal(op.getResults(), results)) {
    // If the batch has only one sequence, each dimension has only one part,
    // that of the sequence, so all its parts are trivially equal. Set the bits
    // of all dimensions.
    if (batch == 1)
      fact.repeating = ~uint64_t(0);
    facts[value] = fact;
  }
}
