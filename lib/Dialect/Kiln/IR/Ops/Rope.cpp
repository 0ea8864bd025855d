//===- Rope.cpp - Rotary position embedding ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "OpChecks.h"
#include "ReferenceRules.h"
#include "SequenceRules.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

LogicalResult RopeOp::verify() {
  if (failed(checkRank(*this, "x", getX(), 2)) ||
      failed(checkRank(*this, "cos", getCos(), 2)) ||
      failed(checkSequences(*this, getX().getType().getDimSize(0),
                            getSequences())))
    return failure();
  int64_t cols = getX().getType().getDimSize(1), heads = getHeads();
  if (heads < 1 || cols % heads || cols / heads % 2)
    return emitOpError("has ") << cols << " columns, which do not divide into "
                               << heads << " heads of even width";
  int64_t length =
      getX().getType().getDimSize(0) / static_cast<int64_t>(getSequences());
  int64_t half = cols / heads / 2;
  auto table = getCos().getType().getShape();
  if (table[0] < length || table[1] != half) // Constraint C1.
    return emitOpError("'cos' has shape ")
           << toString(table) << ", expected at least " << length
           << " rows of length " << half;
  if (failed(checkFull(*this, "cos", getCos(), table, getX())) ||
      failed(checkFull(*this, "sin", getSin(), table, getX())))
    return failure();
  return checkShape(*this, "y", getY(), getX().getType().getShape(), getX());
}

StringRef RopeOp::getKernelFamily() { return "rope"; }
bool RopeOp::readsPitched(unsigned operand) { return operand == 0; }
bool RopeOp::writesPitched(unsigned) { return true; }
bool RopeOp::keepsFullOperand(unsigned operand) { return operand > 0; }

LogicalResult RopeOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                    Wanted wanted, Gradients gradients) {
  if (wanted[1] || wanted[2])
    return emitOpError(
        "has no derivative with respect to its operands 'cos' and 'sin', of "
        "which at least one depends on a trainable state");
  gradients[0] =
      RopeOp::create(builder, getLoc(), getType(), cotangents[0], getCos(),
                     getSin(), getHeads(), getSequences(), !getInverse());
  return success();
}

void RopeOp::inferSequences(Facts operands, int64_t batch,
                            MutableFacts results) {
  const SequenceFact &x = operands[0];
  Facts tables = operands.drop_front();
  int64_t sequences = getSequences();
  if (findOpaque(operands) || !allShared(tables))
    results[0] = explain(*this, operands);
  else if (llvm::any_of(tables, [](auto &fact) { return fact.degree != 0; }))
    results[0] = SequenceFact::opaque(*this, kNotHomogeneous);
  else if (x.isTotal() || x.isShared())
    results[0] = SequenceFact(x.kind, x.degree);
  else if (sequences % batch == 0 && x.splitsAlong(0))
    results[0] = SequenceFact::perSequence(0, x.degree);
  else
    results[0] = explain(*this, operands);
  if (x.isShared() && sequences % batch == 0 && x.splitsAlong(0))
    results[0].repeating = 1;
}

LogicalResult RopeOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0], &cos = *operands[1], &sin = *operands[2];
  int64_t rows = x.shape()[0], columns = x.shape()[1];
  int64_t heads = getHeads(), headDim = columns / heads, half = headDim / 2;
  int64_t period = rows / static_cast<int64_t>(getSequences());
  double direction = getInverse() ? -1 : 1;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t j = 0; j < half; ++j) {
        int64_t first = r * columns + h * headDim + j, second = first + half;
        double c = cos.reals[r % period * half + j];
        double s = direction * sin.reals[r % period * half + j];
        double x1 = x.reals[first], x2 = x.reals[second];
        results[0].reals[first] = x1 * c - x2 * s;
        results[0].reals[second] = x2 * c + x1 * s;
      }
  return success();
}
