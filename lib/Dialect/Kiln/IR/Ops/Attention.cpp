//===- Attention.cpp - Scaled dot-product attention -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference implementation computes one row of probabilities at a time. It
// ignores the attribute `kv_tile`, which only fixes the order of summation.
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "KilnReferenceRandom.h"
#include "OpChecks.h"
#include "ReferenceRules.h"
#include "SequenceRules.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

/// Returns the number of floating-point operations of q k^T over all sequences
/// and heads, for q of shape [rows, cols] and sequences of `length` tokens. A
/// causal mask halves this number approximately.
static int64_t scoreFlops(int64_t rows, int64_t cols, int64_t length,
                          bool causal) {
  return 2 * rows * cols * (causal ? (length + 1) / 2 : length);
}

namespace {

/// Computes the offsets of the vectors of a query head, and of the key head
/// that the query head reads. Used for attention and its gradient.
struct Heads {
  int64_t sequences, length, heads, kvHeads, dim;
  bool causal;

  template <typename Op>
  Heads(Op op, const HostTensor &q)
      : sequences(op.getSequences()), length(q.shape()[0] / sequences),
        heads(op.getHeads()), kvHeads(op.getKvHeads()),
        dim(q.shape()[1] / heads), causal(op.getCausal()) {}

  /// Returns the offset of the vector of query i in q, o and their gradients.
  int64_t query(int64_t sequence, int64_t head, int64_t i) const {
    return ((sequence * length + i) * heads + head) * dim;
  }
  /// Returns the offset of the vector of key j in k, v and their gradients, for
  /// the key head that the query head `head` reads.
  int64_t key(int64_t sequence, int64_t head, int64_t j) const {
    int64_t group = heads / kvHeads;
    return ((sequence * length + j) * kvHeads + head / group) * dim;
  }
  /// Returns the offset of the element of lse for query i.
  int64_t row(int64_t sequence, int64_t head, int64_t i) const {
    return (sequence * heads + head) * length + i;
  }
  /// Returns the number of keys that query i attends to.
  int64_t visible(int64_t i) const { return causal ? i + 1 : length; }
};

/// Dropout mask of an attention op. Its factor is 1 if the op has no dropout.
struct AttentionMask {
  std::optional<reference::DropoutMask> mask;
  int64_t length, firstHead = 0;

  template <typename Op>
  AttentionMask(Op op, const HostTensor *rng, int64_t length) : length(length) {
    double p = op.getP().convertToDouble();
    if (p == 0)
      return;
    mask.emplace(*rng, op.getKey(), p);
    if (rng->size() == 4)
      firstHead = rng->integers[3] * op.getHeads();
  }
  double operator()(int64_t sequence, int64_t head, int64_t i,
                    int64_t j) const {
    return mask ? mask->factor(sequence, (firstHead + head) * length + i, j)
                : 1;
  }
};

} // namespace

static double dot(const double *a, const double *b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += a[i] * b[i];
  return sum;
}

/// Returns the maximum number of terms in a sum that attention or its gradient
/// computes. The longest sums run over the positions of all query heads that
/// share a key head, or over the columns of a head.
template <typename Op> static int64_t longestSumOf(Op op) {
  auto q = tensorTypeOf(op.getQ());
  int64_t length = q.getDimSize(0) / op.getSequences();
  int64_t group = op.getHeads() / op.getKvHeads();
  return std::max<int64_t>(length * group, q.getDimSize(1) / op.getHeads());
}

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

/// Checks the dropout probability, the operand 'rng' and the key tile of
/// attention or of its gradient.
template <typename Op> static LogicalResult checkDropoutAndTile(Op op) {
  double p = op.getP().convertToDouble();
  if (failed(checkProbability(op, p)))
    return failure();
  if (p > 0 && !op.getRng())
    return op.emitOpError("has p = ")
           << p
           << ", but no operand 'rng', from which dropout computes random bits";
  if (op.getRng() && failed(checkRng(op, op.getRng())))
    return failure();
  return checkKeyTile(op, op.getKvTile());
}

LogicalResult AttentionOp::verify() {
  for (auto [name, value] :
       {std::pair<StringRef, Value>{"q", getQ()}, {"k", getK()}, {"v", getV()}})
    if (failed(checkRank(*this, name, value, 2)))
      return failure();
  int64_t rows = getQ().getType().getDimSize(0);
  if (failed(checkSequences(*this, rows, getSequences())))
    return failure();
  int64_t heads = getHeads(), kvHeads = getKvHeads();
  if (heads < 1 || kvHeads < 1 || heads % kvHeads) // Constraint C1.
    return emitOpError("has ")
           << heads << " heads and " << kvHeads
           << " kv_heads, expected kv_heads to divide heads";
  int64_t cols = getQ().getType().getDimSize(1);
  if (cols % heads)
    return emitOpError("'q' has ")
           << cols << " columns, which do not divide into " << heads
           << " heads";
  SmallVector<int64_t> kv = {rows, cols / heads * kvHeads};
  if (failed(checkShape(*this, "k", getK(), kv, getQ())) ||
      failed(checkShape(*this, "v", getV(), kv, getQ())) ||
      failed(checkShape(*this, "o", getO(), getQ().getType().getShape(),
                        getQ())) ||
      failed(checkFull(
          *this, "lse", getLse(),
          {static_cast<int64_t>(getSequences()) * heads, getSequenceLength()},
          getQ())))
    return failure();
  return checkDropoutAndTile(*this);
}

StringRef AttentionOp::getKernelFamily() { return "attention"; }
bool AttentionOp::isHeavy() { return true; }
bool AttentionOp::readsPitched(unsigned) { return true; }
bool AttentionOp::writesPitched(unsigned result) { return result == 0; }
Precision AttentionOp::getPrecision() { return Precision::Low; }
bool AttentionOp::keepsFullResult(unsigned result) { return result == 1; }

int64_t AttentionOp::getFlops() {
  auto shape = getQ().getType().getShape();
  return 2 * scoreFlops(shape[0], shape[1], getSequenceLength(), getCausal());
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted,
                                         Gradients gradients) {
  if (cotangents[1])
    return emitOpError("has no derivative for its result 'lse' (the "
                       "log-sum-exp), on which the loss depends");
  auto gradient = AttentionGradOp::create(
      builder, getLoc(),
      TypeRange{getQ().getType(), getK().getType(), getV().getType()}, getQ(),
      getK(), getV(), getO(), getLse(), cotangents[0], getRng(),
      getSequencesAttr(), getHeadsAttr(), getKvHeadsAttr(), getScaleAttr(),
      getCausalAttr(), getPAttr(), getKeyAttr(), getKvTileAttr());
  gradients[0] = gradient.getDq();
  gradients[1] = gradient.getDk();
  gradients[2] = gradient.getDv();
  return success();
}

/// Attention does not mix sequences, and is linear in v.
void AttentionOp::inferSequences(Facts operands, int64_t batch,
                                 MutableFacts results) {
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
  // The dropout mask depends on the index of the sequence in the batch. With
  // dropout, the op must therefore process exactly the sequences of the batch.
  bool apart = drops ? sequences == batch && isa<BlockArgument>(getRng())
                     : sequences % batch == 0;
  if (!apart || !llvm::all_of(qkv, rows))
    return setAll(results, explain(*this, qkv));
  results[0] = SequenceFact::perSequence(0, qkv[2].degree);
  results[1] = SequenceFact::perSequence(0, 0);
}

int64_t AttentionOp::getLongestSum() { return longestSumOf(*this); }

LogicalResult AttentionOp::evaluate(Operands operands, Results results) {
  const HostTensor &q = *operands[0], &k = *operands[1], &v = *operands[2];
  HostTensor &o = results[0], &lse = results[1];
  double scale = getScale().convertToDouble();
  Heads at(*this, q);
  AttentionMask keep(*this, operands.back(), at.length);
  std::vector<double> scores(at.length);

  for (int64_t s = 0; s < at.sequences; ++s)
    for (int64_t h = 0; h < at.heads; ++h)
      for (int64_t i = 0; i < at.length; ++i) {
        const double *query = q.reals.data() + at.query(s, h, i);
        double *out = o.reals.data() + at.query(s, h, i);
        double largest = -HUGE_VAL, sum = 0;
        for (int64_t j = 0; j < at.visible(i); ++j) {
          scores[j] =
              scale * dot(query, k.reals.data() + at.key(s, h, j), at.dim);
          largest = std::fmax(largest, scores[j]);
        }
        for (int64_t j = 0; j < at.visible(i); ++j)
          sum += std::exp(scores[j] - largest);
        lse.reals[at.row(s, h, i)] = largest + std::log(sum);
        for (int64_t j = 0; j < at.visible(i); ++j) {
          double p = std::exp(scores[j] - largest) / sum * keep(s, h, i, j);
          for (int64_t c = 0; c < at.dim; ++c)
            out[c] += p * v.reals[at.key(s, h, j) + c];
        }
      }
  return success();
}

/// Adds noise that models the rounding error of `lse`, the logarithm of a sum.
/// If the sum is about one, the absolute error of the logarithm is about
/// epsilon, however small the logarithm is.
void AttentionOp::addInnerNoise(Operands, Results results, double epsilon,
                                NoiseSource noise) {
  for (double &lse : results[1].reals)
    lse += noise(epsilon);
}

//===----------------------------------------------------------------------===//
// attention_grad
//===----------------------------------------------------------------------===//

LogicalResult AttentionGradOp::verify() {
  if (failed(checkRank(*this, "q", getQ(), 2)) ||
      failed(checkRank(*this, "k", getK(), 2)))
    return failure();
  int64_t rows = getQ().getType().getDimSize(0);
  int64_t cols = getQ().getType().getDimSize(1);
  int64_t sequences = getSequences(), heads = getHeads();
  int64_t kvHeads = getKvHeads();
  if (failed(checkSequences(*this, rows, sequences)))
    return failure();
  if (heads < 1 || kvHeads < 1 || heads % kvHeads || cols % heads)
    return emitOpError("has ")
           << cols << " columns, " << heads << " heads and " << kvHeads
           << " kv_heads, expected kv_heads to divide heads and heads to "
              "divide the columns";
  if (failed(checkShape(*this, "k", getK(), {rows, cols / heads * kvHeads},
                        getQ())) ||
      failed(checkLike(*this,
                       {{"o", getO()}, {"dout", getDout()}, {"dq", getDq()}},
                       getQ())) ||
      failed(checkLike(*this, {{"v", getV()}, {"dk", getDk()}, {"dv", getDv()}},
                       getK())) ||
      failed(checkFull(*this, "lse", getLse(),
                       {sequences * heads, rows / sequences}, getQ())))
    return failure();
  return checkDropoutAndTile(*this);
}

StringRef AttentionGradOp::getKernelFamily() { return "attention"; }
bool AttentionGradOp::isHeavy() { return true; }
bool AttentionGradOp::readsPitched(unsigned operand) {
  return getOperand(operand) != getLse();
}
bool AttentionGradOp::writesPitched(unsigned) { return true; }

int64_t AttentionGradOp::getFlops() {
  auto shape = tensorTypeOf(getQ()).getShape();
  return 5 * scoreFlops(shape[0], shape[1],
                        shape[0] / static_cast<int64_t>(getSequences()),
                        getCausal());
}

int64_t AttentionGradOp::getLongestSum() { return longestSumOf(*this); }

LogicalResult AttentionGradOp::evaluate(Operands operands, Results results) {
  const HostTensor &q = *operands[0], &k = *operands[1], &v = *operands[2];
  const HostTensor &o = *operands[3], &lse = *operands[4], &dout = *operands[5];
  HostTensor &dq = results[0], &dk = results[1], &dv = results[2];
  double scale = getScale().convertToDouble();
  Heads at(*this, q);
  AttentionMask keep(*this, operands.back(), at.length);

  for (int64_t s = 0; s < at.sequences; ++s)
    for (int64_t h = 0; h < at.heads; ++h)
      for (int64_t i = 0; i < at.length; ++i) {
        int64_t query = at.query(s, h, i);
        double total =
            dot(dout.reals.data() + query, o.reals.data() + query, at.dim);
        for (int64_t j = 0; j < at.visible(i); ++j) {
          int64_t key = at.key(s, h, j);
          double p = std::exp(scale * dot(q.reals.data() + query,
                                          k.reals.data() + key, at.dim) -
                              lse.reals[at.row(s, h, i)]);
          double kept = keep(s, h, i, j);
          double dp = kept * dot(dout.reals.data() + query,
                                 v.reals.data() + key, at.dim);
          double ds = scale * p * (dp - total);
          for (int64_t c = 0; c < at.dim; ++c) {
            dq.reals[query + c] += ds * k.reals[key + c];
            dk.reals[key + c] += ds * q.reals[query + c];
            dv.reals[key + c] += p * kept * dout.reals[query + c];
          }
        }
      }
  return success();
}
