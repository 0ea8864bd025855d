//===- SequenceRules.cpp - Helpers of sequence transfer functions ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every transfer function is conservative: if it does not recognize a case, the
// result is Opaque and names the op.
//
//===----------------------------------------------------------------------===//

#include "SequenceRules.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::sequences;

const SequenceFact *sequences::findOpaque(Facts facts) {
  auto found = llvm::find_if(facts, [](auto &f) { return f.isOpaque(); });
  return found == facts.end() ? nullptr : found;
}

bool sequences::allShared(Facts facts) {
  return llvm::all_of(facts, [](auto &fact) { return fact.isShared(); });
}

void sequences::setAll(MutableFacts results, const SequenceFact &fact) {
  llvm::fill(results, fact);
}

std::optional<int64_t> sequences::commonDim(Facts facts) {
  auto first = llvm::find_if(facts, [](auto &f) { return f.isPerSequence(); });
  if (first == facts.end() || llvm::any_of(facts, [&](const SequenceFact &f) {
        return !f.splitsAlong(first->dim);
      }))
    return std::nullopt;
  return first->dim;
}

SequenceFact sequences::explain(Operation *op, Facts facts) {
  if (const SequenceFact *opaque = findOpaque(facts))
    return *opaque;
  bool sums = llvm::any_of(
      facts, [](auto &fact) { return fact.isTotal() || fact.isMixed(); });
  return SequenceFact::opaque(
      op, sums ? "is not a linear function of a sum over the sequences"
               : "does not treat the sequences of a batch independently and "
                 "equally");
}

SequenceFact sequences::inferSum(Operation *op, Facts operands) {
  int64_t degree = operands.front().degree;
  bool sameDegree =
      llvm::all_of(operands, [&](auto &f) { return f.degree == degree; });
  if (findOpaque(operands))
    return explain(op, operands);
  if (allShared(operands) && sameDegree) {
    uint64_t repeating = ~uint64_t(0);
    for (const SequenceFact &fact : operands)
      repeating &= fact.repeating;
    return SequenceFact::shared(degree, repeating);
  }
  if (std::optional<int64_t> dim = commonDim(operands))
    return sameDegree ? SequenceFact::perSequence(*dim, degree)
                      : SequenceFact::opaque(op, kNotHomogeneous);
  if (llvm::any_of(operands, [](auto &f) { return f.isPerSequence(); }))
    return explain(op, operands);
  bool allTotal =
      llvm::all_of(operands, [](auto &fact) { return fact.isTotal(); });
  return allTotal && sameDegree ? SequenceFact::total(degree)
                                : SequenceFact::mixed();
}

SequenceFact sequences::inferNonlinear(Operation *op, Facts operands) {
  if (findOpaque(operands))
    return explain(op, operands);
  if (llvm::any_of(operands,
                   [](auto &f) { return !f.isMixed() && f.degree != 0; }))
    return SequenceFact::opaque(op, kNotHomogeneous);
  if (allShared(operands)) {
    uint64_t repeating = ~uint64_t(0);
    for (const SequenceFact &fact : operands)
      repeating &= fact.repeating;
    return SequenceFact::shared(0, repeating);
  }
  if (std::optional<int64_t> dim = commonDim(operands))
    return SequenceFact::perSequence(*dim, 0);
  return explain(op, operands);
}

void kiln::inferElementwise(Operation *op, Facts operands, int64_t,
                            MutableFacts results) {
  bool linear = cast<SequenceOpInterface>(op).isLinear();
  setAll(results,
         linear ? inferSum(op, operands) : inferNonlinear(op, operands));
}

void kiln::inferUnknown(Operation *op, Facts operands, MutableFacts results) {
  if (findOpaque(operands))
    return setAll(results, explain(op, operands));
  bool known = allShared(operands) && llvm::all_of(operands, [](auto &fact) {
                 return fact.degree == 0;
               });
  setAll(results, known ? SequenceFact::shared()
                        : SequenceFact::opaque(
                              op, "has no rule for the sequences of a batch"));
}

SequenceFact sequences::inferRows(Operation *op, Facts operands,
                                  size_t firstPerColumn) {
  if (findOpaque(operands))
    return explain(op, operands);
  Facts perColumn = operands.drop_front(firstPerColumn);
  if (!allShared(perColumn))
    return explain(op, operands);
  if (llvm::any_of(operands, [](auto &fact) { return fact.degree != 0; }))
    return SequenceFact::opaque(op, kNotHomogeneous);
  SequenceFact fact = inferNonlinear(op, operands.take_front(firstPerColumn));
  int64_t last = tensorTypeOf(op->getOperand(0)).getRank() - 1;
  if (fact.isPerSequence() && fact.dim == last)
    return explain(op, {});
  fact.repeating &= ~(uint64_t(1) << last);
  return fact;
}

std::optional<int64_t> sequences::sequenceMajorDim(Value value,
                                                   const SequenceFact &fact) {
  for (auto [dim, size] : llvm::enumerate(tensorTypeOf(value).getShape())) {
    if (fact.splitsAlong(static_cast<int64_t>(dim)))
      return dim;
    if (size != 1)
      break;
  }
  return std::nullopt;
}

uint64_t sequences::dividedDims(RankedTensorType type, int64_t batch) {
  uint64_t dims = 0;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (dim < 64 && size % batch == 0)
      dims |= uint64_t(1) << dim;
  return dims;
}

SequenceFact sequences::inferMoved(Operation *op, const SequenceFact &x,
                                   DimMap map) {
  SequenceFact y = x;
  if (x.isPerSequence()) {
    std::optional<int64_t> dim = map(x.dim);
    if (!dim)
      return explain(op, {});
    y.dim = *dim;
  }
  y.repeating = 0;
  for (int64_t dim = 0; x.isShared() && dim < 64; ++dim)
    if (x.splitsAlong(dim))
      if (std::optional<int64_t> to = map(dim); to && *to < 64)
        y.repeating |= uint64_t(1) << *to;
  return y;
}
