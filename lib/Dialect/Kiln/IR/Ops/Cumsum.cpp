//===- Cumsum.cpp - Cumulative sums ---------------------------------------===//
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

LogicalResult CumsumOp::verify() {
  return checkRank(*this, "x", getX(), 2); // C1
}

StringRef CumsumOp::getKernelFamily() { return "cumsum"; }
bool CumsumOp::readsPitched(unsigned) { return true; }
bool CumsumOp::writesPitched(unsigned) { return true; }
Precision CumsumOp::getPrecision() { return Precision::Full; }
bool CumsumOp::isLinear() { return true; }

KILN_UNARY_GRADIENT(CumsumOp, CumsumOp::create(builder, getLoc(), dy.getType(),
                                               dy, !getReverse()))

/// If dimension 0 of the operand has one part per sequence, so has dimension 0
/// of the result, because rows are independent. Dimension 1 of the result never
/// has one part per sequence, because an element of the result depends on
/// several elements of its row.
void CumsumOp::inferSequences(Facts operands, int64_t, MutableFacts results) {
  results[0] =
      inferMoved(*this, operands[0], [](int64_t dim) -> std::optional<int64_t> {
        return dim == 0 ? std::optional(dim) : std::nullopt;
      });
}

int64_t CumsumOp::getLongestSum() { return getX().getType().getDimSize(1); }

LogicalResult CumsumOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < rows.length; ++i) {
      int64_t column = getReverse() ? rows.length - 1 - i : i;
      sum += rowOf(x, r, rows.length)[column];
      results[0].reals[r * rows.length + column] = sum;
    }
  }
  return success();
}
