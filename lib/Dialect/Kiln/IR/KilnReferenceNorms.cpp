//===- KilnReferenceNorms.cpp - Reference of norms and softmax ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ReferenceOpInterface of the ops that normalize the rows of a tensor, and of
// their gradients. Every sum is a plain loop in f64.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

namespace {

/// The rows of a tensor: all dimensions but the last.
struct Rows {
  int64_t count, length;
  explicit Rows(const HostTensor &x) {
    length = x.shape().empty() ? 1 : x.shape().back();
    count = length == 0 ? 0 : x.size() / length;
  }
};

} // namespace

static const double *rowOf(const HostTensor &x, int64_t row, int64_t length) {
  return x.reals.data() + row * length;
}

LogicalResult LayerNormOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  const std::vector<double> &gamma = operands[1]->reals;
  const std::vector<double> &beta = operands[2]->reals;
  double eps = getEps().convertToDouble();
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *in = rowOf(x, r, rows.length);
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < rows.length; ++c)
      sum += in[c];
    double mean = sum / rows.length;
    for (int64_t c = 0; c < rows.length; ++c)
      squares += (in[c] - mean) * (in[c] - mean);
    double rstd = 1 / std::sqrt(squares / rows.length + eps);
    for (int64_t c = 0; c < rows.length; ++c)
      results[0].reals[r * rows.length + c] =
          (in[c] - mean) * rstd * gamma[c] + beta[c];
    results[1].reals[r] = mean;
    results[2].reals[r] = rstd;
  }
  return success();
}

LogicalResult NormalizeOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0], &rstd = *operands.back();
  const HostTensor *mean = operands.size() == 3 ? operands[1] : nullptr;
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r)
    for (int64_t c = 0; c < rows.length; ++c) {
      int64_t i = r * rows.length + c;
      results[0].reals[i] =
          (x.reals[i] - (mean ? mean->reals[r] : 0)) * rstd.reals[r];
    }
  return success();
}

LogicalResult AffineOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0], &gamma = *operands[1];
  const HostTensor *beta = operands.size() == 3 ? operands[2] : nullptr;
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r)
    for (int64_t c = 0; c < rows.length; ++c) {
      int64_t i = r * rows.length + c;
      results[0].reals[i] =
          x.reals[i] * gamma.reals[c] + (beta ? beta->reals[c] : 0);
    }
  return success();
}

/// dx = rstd * (g - sum(g)/C - h * sum(g*h)/C) with h = (x - mean) * rstd and
/// g = dy * gamma; the term sum(g)/C only with a mean.
static void normGradient(const HostTensor &x, const HostTensor &gamma,
                         const HostTensor *mean, const HostTensor &rstd,
                         const HostTensor &dy, HostTensor &dx) {
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r) {
    auto normalized = [&](int64_t c) {
      double centered =
          x.reals[r * rows.length + c] - (mean ? mean->reals[r] : 0);
      return centered * rstd.reals[r];
    };
    auto gradient = [&](int64_t c) {
      return dy.reals[r * rows.length + c] * gamma.reals[c];
    };
    double sum = 0, product = 0;
    for (int64_t c = 0; c < rows.length; ++c) {
      if (mean)
        sum += gradient(c);
      product += gradient(c) * normalized(c);
    }
    for (int64_t c = 0; c < rows.length; ++c)
      dx.reals[r * rows.length + c] =
          rstd.reals[r] * (gradient(c) - sum / rows.length -
                           normalized(c) * product / rows.length);
  }
}

LogicalResult LayerNormGradOp::evaluate(Operands operands, Results results) {
  normGradient(*operands[0], *operands[1], operands[2], *operands[3],
               *operands[4], results[0]);
  return success();
}

LogicalResult RmsNormOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  double eps = getEps().convertToDouble();
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *in = rowOf(x, r, rows.length);
    double squares = 0;
    for (int64_t c = 0; c < rows.length; ++c)
      squares += in[c] * in[c];
    double rstd = 1 / std::sqrt(squares / rows.length + eps);
    for (int64_t c = 0; c < rows.length; ++c)
      results[0].reals[r * rows.length + c] =
          in[c] * rstd * operands[1]->reals[c];
    results[1].reals[r] = rstd;
  }
  return success();
}

LogicalResult RmsNormGradOp::evaluate(Operands operands, Results results) {
  normGradient(*operands[0], *operands[1], /*mean=*/nullptr, *operands[2],
               *operands[3], results[0]);
  return success();
}

LogicalResult SoftmaxOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *in = rowOf(x, r, rows.length);
    double *out = results[0].reals.data() + r * rows.length;
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t c = 0; c < rows.length; ++c)
      largest = std::fmax(largest, in[c]);
    for (int64_t c = 0; c < rows.length; ++c)
      sum += out[c] = std::exp(in[c] - largest);
    for (int64_t c = 0; c < rows.length; ++c)
      out[c] /= sum;
  }
  return success();
}

LogicalResult SoftmaxGradOp::evaluate(Operands operands, Results results) {
  const HostTensor &y = *operands[0], &dy = *operands[1];
  Rows rows(y);
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *p = rowOf(y, r, rows.length);
    const double *g = rowOf(dy, r, rows.length);
    double product = 0;
    for (int64_t c = 0; c < rows.length; ++c)
      product += p[c] * g[c];
    for (int64_t c = 0; c < rows.length; ++c)
      results[0].reals[r * rows.length + c] = p[c] * (g[c] - product);
  }
  return success();
}
