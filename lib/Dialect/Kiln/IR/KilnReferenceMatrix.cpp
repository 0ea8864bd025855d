//===- KilnReferenceMatrix.cpp - Reference of matmul and attention --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ReferenceOpInterface of matrix products and attention. Attention keeps one
// row of probabilities at a time; `grid` and `kv_tile`, which only fix orders
// of summation, do not matter here.
//
//===----------------------------------------------------------------------===//

#include "KilnReferenceRandom.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace kiln;

using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

LogicalResult MatmulOp::evaluate(Operands operands, Results results) {
  const HostTensor &a = *operands[0], &b = *operands[1];
  HostTensor &y = results[0];
  auto extent = [](const HostTensor &x, int fromEnd) {
    return x.shape()[x.shape().size() - fromEnd];
  };
  int64_t m = extent(y, 2), n = extent(y, 1);
  int64_t k = extent(a, getTransA() ? 2 : 1);
  int64_t batch = m * n == 0 ? 0 : y.size() / (m * n);
  int64_t rowOfA = getTransA() ? 1 : k, columnOfA = getTransA() ? m : 1;
  int64_t rowOfB = getTransB() ? 1 : n, columnOfB = getTransB() ? k : 1;
  if (operands.size() == 3)
    y.reals = operands[2]->reals;
  for (int64_t p = 0; p < batch; ++p)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l) {
        double left = a.reals[p * m * k + i * rowOfA + l * columnOfA];
        const double *right = b.reals.data() + p * k * n + l * rowOfB;
        double *sum = y.reals.data() + (p * m + i) * n;
        for (int64_t j = 0; j < n; ++j)
          sum[j] += left * right[j * columnOfB];
      }
  return success();
}

namespace {

/// The common geometry of attention and its gradient: where the vectors of a
/// query head and of the key head that it reads are.
struct Heads {
  int64_t sequences, length, heads, kvHeads, dim;
  bool causal;

  template <typename Op>
  Heads(Op op, const HostTensor &q)
      : sequences(op.getSequences()), length(q.shape()[0] / sequences),
        heads(op.getHeads()), kvHeads(op.getKvHeads()),
        dim(q.shape()[1] / heads), causal(op.getCausal()) {}

  /// Offset of the vector of a query in q, o and their gradients.
  int64_t query(int64_t sequence, int64_t head, int64_t i) const {
    return ((sequence * length + i) * heads + head) * dim;
  }
  /// Offset of the vector of a key in k, v and their gradients.
  int64_t key(int64_t sequence, int64_t head, int64_t j) const {
    int64_t group = heads / kvHeads;
    return ((sequence * length + j) * kvHeads + head / group) * dim;
  }
  /// Offset of the row of lse of a query.
  int64_t row(int64_t sequence, int64_t head, int64_t i) const {
    return (sequence * heads + head) * length + i;
  }
  /// Keys that query i sees.
  int64_t visible(int64_t i) const { return causal ? i + 1 : length; }
};

/// The dropout of an attention op; multiplies by one when there is none.
struct AttentionMask {
  std::optional<reference::DropoutMask> mask;
  int64_t length;

  template <typename Op>
  AttentionMask(Op op, const HostTensor *rng, int64_t length) : length(length) {
    if (double p = op.getP().convertToDouble())
      mask.emplace(*rng, op.getKey(), p);
  }
  double operator()(int64_t sequence, int64_t head, int64_t i,
                    int64_t j) const {
    return mask ? mask->factor(sequence, head * length + i, j) : 1;
  }
};

} // namespace

static double dot(const double *a, const double *b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += a[i] * b[i];
  return sum;
}

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
