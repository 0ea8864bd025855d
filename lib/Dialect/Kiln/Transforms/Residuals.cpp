//===- Residuals.cpp - Values kept for the backward pass ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Residuals.h"

using namespace mlir;
using namespace kiln;

int64_t kiln::countSequences(ProgramOp program) {
  BlockArgument tokens = program.getInput(InputRole::Tokens);
  return tokens && tensorTypeOf(tokens).getRank() > 0
             ? tensorTypeOf(tokens).getDimSize(0)
             : 1;
}

Operation *kiln::findBackwardPhase(ProgramOp program) {
  Operation *phase = nullptr;
  for (Operation &op : program.getBlock())
    if (isa<PhaseOp>(op))
      phase = &op;
  return phase;
}

ResidualMap kiln::findResiduals(ProgramOp program, Operation *phase) {
  ResidualMap residuals;
  // Insert the residuals in program order. A MapVector is iterated in the order
  // of insertion, so all loops over `residuals` follow the program order.
  for (auto it = program.getBlock().begin(); &*it != phase; ++it)
    for (Value result : it->getResults())
      if (!isa<ReadOp, ConstantOp>(*it) && viewedValue(result) == result)
        residuals[result];
  for (auto it = std::next(Block::iterator(phase));
       it != program.getBlock().end(); ++it)
    if (familyOf(&*it) != Family::View)
      for (Value operand : it->getOperands())
        if (auto found = residuals.find(viewedValue(operand));
            found != residuals.end())
          found->second.push_back({&*it, operand});
  residuals.remove_if([](auto &entry) { return entry.second.empty(); });
  return residuals;
}

EncodedAttr kiln::describeEncoding(Value residual, StringRef name, bool lossy,
                                   int64_t encodedBytes) {
  Builder b(residual.getContext());
  return EncodedAttr::get(b.getContext(),
                          b.getStringAttr(getLocationName(residual.getLoc())),
                          b.getStringAttr(name), lossy,
                          bytesOf(residual.getType()), encodedBytes);
}
