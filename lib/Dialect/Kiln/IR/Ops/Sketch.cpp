//===- Sketch.cpp - Random row sketches -------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KilnReferenceRandom.h"
#include "OpChecks.h"
#include "ReferenceRules.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::reference;

LogicalResult SketchRowsOp::verify() {
  if (failed(checkRank(*this, "x", getX(), 2)) ||
      failed(checkRank(*this, "y", getY(), 2)) ||
      failed(checkRng(*this, getRng()))) // Constraint C3.
    return failure();
  int64_t rows = getX().getType().getDimSize(0),
          kept = getY().getType().getDimSize(0);
  if (failed(checkSequences(*this, rows, getSequences())) || // Constraint C1.
      failed(checkSequences(*this, kept, getSequences())))
    return failure();
  if (kept > rows)
    return emitOpError("'y' has ")
           << kept << " rows, expected at most the number of rows of 'x', "
           << rows;
  return checkShape(*this, "y", getY(), // Constraint C2.
                    {kept, getX().getType().getDimSize(1)}, getX());
}

StringRef SketchRowsOp::getKernelFamily() { return "sketch"; }
bool SketchRowsOp::readsPitched(unsigned operand) { return operand == 0; }

int64_t SketchRowsOp::getLongestSum() {
  return getX().getType().getDimSize(0) / getY().getType().getDimSize(0) + 1;
}

LogicalResult SketchRowsOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  reference::RandomBits bits(*operands[1], getKey());
  auto sequences = static_cast<int64_t>(getSequences());
  int64_t columns = x.shape()[1], length = x.shape()[0] / sequences,
          kept = results[0].shape()[0] / sequences;
  for (int64_t row = 0; row < x.shape()[0]; ++row) {
    int64_t sequence = row / length, t = row % length;
    bool isMinus = bits.at(sequence, t, 0) >> 31;
    int64_t to = (sequence * kept + t % kept) * columns;
    for (int64_t column = 0; column < columns; ++column) {
      double term = x.reals[row * columns + column];
      results[0].reals[to + column] += isMinus ? -term : term;
    }
  }
  return success();
}
