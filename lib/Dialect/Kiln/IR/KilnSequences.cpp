//===- KilnSequences.cpp - Sequence rules of ops ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements SequenceOpInterface for elementwise ops, norms, losses, lookups
// and random ops. Every transfer function is conservative: if it does not
// recognize a case, the result is Opaque and names the op.
//
//===----------------------------------------------------------------------===//

#include "SequenceRules.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::sequences;

using Facts = ArrayRef<SequenceFact>;
using Results = MutableArrayRef<SequenceFact>;

//===----------------------------------------------------------------------===//
// Rules.
//===----------------------------------------------------------------------===//

const SequenceFact *sequences::findOpaque(Facts facts) {
  auto found = llvm::find_if(facts, [](auto &f) { return f.isOpaque(); });
  return found == facts.end() ? nullptr : found;
}

bool sequences::allShared(Facts facts) {
  return llvm::all_of(facts, [](auto &fact) { return fact.isShared(); });
}

void sequences::setAll(Results results, const SequenceFact &fact) {
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
                            Results results) {
  bool linear = cast<SequenceOpInterface>(op).isLinear();
  setAll(results,
         linear ? inferSum(op, operands) : inferNonlinear(op, operands));
}

void kiln::inferUnknown(Operation *op, Facts operands, Results results) {
  if (findOpaque(operands))
    return setAll(results, explain(op, operands));
  bool known = allShared(operands) && llvm::all_of(operands, [](auto &fact) {
                 return fact.degree == 0;
               });
  setAll(results, known ? SequenceFact::shared()
                        : SequenceFact::opaque(
                              op, "has no rule for the sequences of a batch"));
}

//===----------------------------------------------------------------------===//
// Elementwise ops.
//===----------------------------------------------------------------------===//

bool NegOp::isLinear() { return true; }
bool AddOp::isLinear() { return true; }
bool SubOp::isLinear() { return true; }
bool ScaleOp::isLinear() { return true; }
bool CastOp::isLinear() { return true; }

/// All elements are equal, so every dimension that B divides has B equal parts.
void ConstantOp::inferSequences(Facts, int64_t batch, Results results) {
  results[0] =
      SequenceFact::shared(0, dividedDims(tensorTypeOf(getY()), batch));
}

/// Returns the fact of an elementwise product or quotient of the given degree.
/// It is linear in the first operand and, if `bMayBeTotal`, in the second.
static SequenceFact inferMatmul(Operation *op, Facts operands, int64_t degree,
                                bool bMayBeTotal) {
  const SequenceFact &a = operands[0], &b = operands[1];
  if (findOpaque(operands) || a.isMixed() || b.isMixed())
    return explain(op, operands);
  if (allShared(operands))
    return SequenceFact::shared(degree, a.repeating & b.repeating);
  if (std::optional<int64_t> dim = commonDim(operands))
    return SequenceFact::perSequence(*dim, degree);
  if ((a.isTotal() && b.isShared()) ||
      (bMayBeTotal && a.isShared() && b.isTotal()))
    return SequenceFact::total(degree);
  return explain(op, operands);
}

void MulOp::inferSequences(Facts operands, int64_t, Results results) {
  results[0] = inferMatmul(*this, operands,
                           operands[0].degree + operands[1].degree, true);
}

void DivOp::inferSequences(Facts operands, int64_t, Results results) {
  results[0] = inferMatmul(*this, operands,
                           operands[0].degree - operands[1].degree, false);
}

//===----------------------------------------------------------------------===//
// Norms.
//===----------------------------------------------------------------------===//

/// Returns the fact of an op that combines the elements of the last dimension
/// of its first operand. Operands from `firstPerColumn` on have one element per
/// column.
static SequenceFact inferRows(Operation *op, Facts operands,
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

void LayerNormOp::inferSequences(Facts operands, int64_t, Results results) {
  setAll(results, inferRows(*this, operands, 1));
}
void RmsNormOp::inferSequences(Facts operands, int64_t, Results results) {
  setAll(results, inferRows(*this, operands, 1));
}
void NormalizeOp::inferSequences(Facts operands, int64_t, Results results) {
  setAll(results, inferRows(*this, operands, operands.size()));
}
void AffineOp::inferSequences(Facts operands, int64_t, Results results) {
  setAll(results, inferRows(*this, operands, 1));
}
void SoftmaxOp::inferSequences(Facts operands, int64_t, Results results) {
  setAll(results, inferRows(*this, operands, 1));
}

//===----------------------------------------------------------------------===//
// Losses, lookups and random ops.
//===----------------------------------------------------------------------===//

/// Returns the dimension with one part per sequence if these parts are
/// contiguous in row-major order.
static std::optional<int64_t> sequenceMajorDim(Value value,
                                               const SequenceFact &fact) {
  for (auto [dim, size] : llvm::enumerate(tensorTypeOf(value).getShape())) {
    if (fact.splitsAlong(static_cast<int64_t>(dim)))
      return dim;
    if (size != 1)
      break;
  }
  return std::nullopt;
}

/// Returns the fact of a loss, which is a sum over rows with one target each.
static SequenceFact inferLoss(Operation *op, Facts rows, Value targets,
                              const SequenceFact &target, Facts shared,
                              const SequenceFact &scale) {
  SmallVector<SequenceFact> all(rows);
  llvm::append_range(all, shared);
  all.append({target, scale});
  if (findOpaque(all) || !allShared(shared) || !scale.isShared())
    return explain(op, all);
  if (rows.front().degree != 0 ||
      llvm::any_of(shared, [](auto &fact) { return fact.degree != 0; }))
    return SequenceFact::opaque(op, kNotHomogeneous);
  if (allShared(all))
    return SequenceFact::shared(scale.degree);
  return rows.front().splitsAlong(0) && sequenceMajorDim(targets, target)
             ? SequenceFact::total(scale.degree)
             : explain(op, all);
}

void CrossEntropyOp::inferSequences(Facts operands, int64_t, Results results) {
  results[0] =
      inferLoss(*this, operands[0], getTargets(), operands[1], {}, operands[2]);
}

void LinearCrossEntropyOp::inferSequences(Facts operands, int64_t,
                                          Results results) {
  results[0] = inferLoss(*this, operands[0], getTargets(), operands[2],
                         operands[1], operands[3]);
}

void EmbeddingOp::inferSequences(Facts operands, int64_t, Results results) {
  const SequenceFact &tokens = operands[0], &table = operands[1];
  if (findOpaque(operands) || !table.isShared())
    results[0] = explain(*this, operands);
  else if (tokens.isShared())
    results[0] = SequenceFact::shared(
        table.degree, sequenceMajorDim(getTokens(), tokens) ? 1 : 0);
  else if (sequenceMajorDim(getTokens(), tokens))
    results[0] = SequenceFact::perSequence(0, table.degree);
  else
    results[0] = explain(*this, operands);
}

/// The mask differs between sequences, so even a shared value becomes
/// PerSequence.
void DropoutOp::inferSequences(Facts operands, int64_t batch, Results results) {
  const SequenceFact &x = operands[0];
  int64_t sequences = getSequences();
  std::optional<int64_t> dim = sequenceMajorDim(getX(), x);
  results[0] = sequences == batch && dim && isa<BlockArgument>(getRng())
                   ? SequenceFact::perSequence(*dim, x.degree)
                   : explain(*this, x);
}

void RopeOp::inferSequences(Facts operands, int64_t batch, Results results) {
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

/// Attention does not cross sequences, and is linear in v.
void AttentionOp::inferSequences(Facts operands, int64_t batch,
                                 Results results) {
  Facts qkv = operands.take_front(3);
  int64_t sequences = getSequences();
  bool drops = getP().convertToDouble() > 0;
  auto rows = [](const SequenceFact &fact) { return fact.splitsAlong(0); };
  if (findOpaque(qkv))
    return setAll(results, explain(*this, qkv));
  if (qkv[0].degree != 0 || qkv[1].degree != 0)
    return setAll(results, SequenceFact::opaque(*this, kNotHomogeneous));
  if (allShared(qkv) && !drops) {
    bool repeats = sequences % batch == 0 && llvm::all_of(qkv, rows);
    results[0] = SequenceFact::shared(qkv[2].degree, repeats);
    results[1] = SequenceFact::shared(0, repeats);
    return;
  }
  // The keys of the mask number the sequences of the batch.
  bool apart = drops ? sequences == batch && isa<BlockArgument>(getRng())
                     : sequences % batch == 0;
  if (!apart || !llvm::all_of(qkv, rows))
    return setAll(results, explain(*this, qkv));
  results[0] = SequenceFact::perSequence(0, qkv[2].degree);
  results[1] = SequenceFact::perSequence(0, 0);
}
