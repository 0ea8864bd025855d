//===- PowerSgd.cpp - Low-rank sums of gradients --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PowerSGD with error feedback and warm start: T. Vogels, S. P. Karimireddy and
// M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
// Optimization" (NeurIPS 2019, arXiv:1905.13727). The vectors of a basis are
// the rows of a matrix.
//
//===----------------------------------------------------------------------===//

#include "GradientSchemes.h"
#include "RowOps.h"
#include "kiln/Support/GradientCompression.h"

using namespace mlir;
using namespace kiln;

namespace {

/// A gradient of the bucket (the gradients that one collective sums).
struct LowRank : CompressedGradient {
  StateOp error, basis;
  Value corrected; ///< The gradient plus the error of the previous step.
  Value oldBasis, left;
  /// `own` is the second factor of this rank, and `right` is the sum of `own`
  /// over the ranks.
  Value own, right;
};

class PowerSgd final : public GradientScheme {
public:
  using GradientScheme::GradientScheme;

  std::string needs() const override {
    return "matrices whose factors have at most half as many bytes";
  }
  std::optional<int64_t> bytesOf(RankedTensorType gradient) const override;
  void begin(ArrayRef<CompressedGradient> gradients,
             Operation *position) override;
  SmallVector<Value> finish(Operation *position) override;

private:
  void project(LowRank &gradient);
  Value restore(LowRank &gradient);

  SmallVector<LowRank> bucket;
};

} // namespace

/// A matrix is compressed if its factors have at most half as many bytes as the
/// matrix.
std::optional<int64_t> PowerSgd::bytesOf(RankedTensorType gradient) const {
  if (gradient.getRank() != 2)
    return std::nullopt;
  int64_t rows = gradient.getDimSize(0), columns = gradient.getDimSize(1);
  int64_t bytes =
      kiln::bytesOf(fullPrecision(gradient.clone({size, rows + columns})));
  if (2 * bytes > kiln::bytesOf(gradient))
    return std::nullopt;
  return bytes;
}

/// Adds the error of the previous step to a gradient, and projects the sum onto
/// the basis.
void PowerSgd::project(LowRank &gradient) {
  RowOps o(builder, gradient.part);
  Type element = gradient.error.getTensorType().getElementType();
  gradient.corrected =
      o.create<AddOp>(o.cast(gradient.part, element), read(gradient.error));
  gradient.oldBasis = o.orthonormalRows(read(gradient.basis));
  gradient.left = o.create<MatmulOp>(gradient.oldBasis, gradient.corrected,
                                     /*transA=*/false, /*transB=*/true);
}

void PowerSgd::begin(ArrayRef<CompressedGradient> gradients,
                     Operation *position) {
  builder.setInsertionPoint(position);
  bucket.clear();
  SmallVector<Value> factors;
  for (const CompressedGradient &each : gradients) {
    LowRank &gradient = bucket.emplace_back();
    static_cast<CompressedGradient &>(gradient) = each;
    RankedTensorType type = fullPrecision(tensorTypeOf(gradient.part));
    gradient.error = addError(gradient.parameter, type);
    gradient.basis = addState(gradient.parameter, support::basisSlot,
                              type.clone({size, type.getDimSize(1)}),
                              NormalAttr::get(module.getContext(), 0.0, 1.0));
    project(gradient);
    factors.push_back(gradient.left);
  }
  for (auto [gradient, summed] : llvm::zip_equal(bucket, sum(factors)))
    gradient.left = summed;
}

/// Returns the sum of a gradient over the ranks, as the product of its two
/// factors, and writes the states. The error of this rank is the part of its
/// gradient that its own factors do not represent.
Value PowerSgd::restore(LowRank &gradient) {
  RowOps o(builder, gradient.part);
  Value sum = o.create<MatmulOp>(gradient.left, gradient.right,
                                 /*transA=*/true, /*transB=*/false);
  Value sent = o.create<MatmulOp>(gradient.left, gradient.own,
                                  /*transA=*/true, /*transB=*/false);
  Value error = o.create<SubOp>(gradient.corrected, sent);
  Value basis =
      o.create<AddOp>(gradient.right, o.scale(gradient.oldBasis, kKeptPart));
  write(gradient.error, error);
  write(gradient.basis, basis);
  return sum;
}

SmallVector<Value> PowerSgd::finish(Operation *position) {
  builder.setInsertionPoint(position);
  SmallVector<Value> factors, sums;
  for (LowRank &gradient : bucket) {
    RowOps o(builder, gradient.part);
    gradient.left = o.orthonormalRows(gradient.left);
    gradient.own = o.create<MatmulOp>(gradient.left, gradient.corrected,
                                      /*transA=*/false, /*transB=*/false);
    factors.push_back(gradient.own);
  }
  for (auto [gradient, summed] : llvm::zip_equal(bucket, sum(factors))) {
    gradient.right = summed;
    sums.push_back(restore(gradient));
  }
  return sums;
}

std::unique_ptr<GradientScheme>
kiln::createPowerSgd(const support::GradientCompression &compression,
                     ModuleOp module, ProgramOp train) {
  return std::make_unique<PowerSgd>(compression, module, train);
}
