//===- GradZip.cpp - Sums of one low-rank factor in turns -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Alternating matrix factorization of gradients, after M. Cho, V. Muthusamy, B.
// Nemanich and R. Puri, "GradZip: Gradient Compression using Alternating Matrix
// Factorization for Large-scale Deep Learning" (workshop on systems for machine
// learning at NeurIPS 2019). A gradient G is approximated by P^T Q. In one
// step, Q is fixed and the same on all ranks. Each rank computes the best P for
// this Q, and the ranks sum these P. In the next step, P is fixed, and the
// ranks sum Q. Here the fixed factor is orthonormal, so that a single matmul
// computes the best other factor. As in PowerSGD, each rank adds its error to
// its next gradient.
//
// A program has the same commands in every step. Every step therefore computes
// both factors. The ranks sum a P + b Q, where (a, b) is (1, 0) in one step and
// (0, 1) in the next step.
//
//===----------------------------------------------------------------------===//

#include "GradientSchemes.h"
#include "RowOps.h"
#include "kiln/Support/GradientCompression.h"

using namespace mlir;
using namespace kiln;

namespace {

/// A gradient of the bucket. The factors of a matrix of n rows and m columns
/// are P, with R rows of n elements, and Q, with R rows of m elements, where R
/// is the rank of the approximation.
struct Alternating : CompressedGradient {
  StateOp error, rowBasis, basis, turnState;
  Value corrected; ///< The gradient plus the error of the previous step.
  /// Vectors of one element. `sumsP` is 1 if this step sums the factor P over
  /// the ranks, and `sumsQ` is 1 if it sums Q. Otherwise they are 0.
  Value sumsP, sumsQ;
  Value fixedP, fixedQ; ///< The orthonormal factors of the previous steps.
  /// For the gradient of this rank, `ownP` is the best P for `fixedQ`, and
  /// `ownQ` is the best Q for `fixedP`.
  Value ownP, ownQ;
};

class GradZip final : public GradientScheme {
public:
  using GradientScheme::GradientScheme;

  std::string needs() const override {
    return "matrices whose larger factor has at most half as many bytes";
  }
  std::optional<int64_t> bytesOf(RankedTensorType gradient) const override;
  void begin(ArrayRef<CompressedGradient> gradients,
             Operation *position) override;
  SmallVector<Value> finish(Operation *position) override;

private:
  void addStates(Alternating &gradient);
  Value factorToSum(Alternating &gradient);
  Value restore(Alternating &gradient, Value summed);

  SmallVector<Alternating> bucket;
  SmallVector<Value> factors; ///< The factors that ranks sum.
};

} // namespace

/// Returns the type of the tensor that ranks sum for a gradient: one factor,
/// padded to the size of the larger factor.
static RankedTensorType summedType(RankedTensorType gradient, int64_t rank) {
  return fullPrecision(gradient.clone(
      {rank, std::max(gradient.getDimSize(0), gradient.getDimSize(1))}));
}

/// A matrix is compressed if the factor that ranks sum has at most half as many
/// bytes as the matrix.
std::optional<int64_t> GradZip::bytesOf(RankedTensorType gradient) const {
  if (gradient.getRank() != 2)
    return std::nullopt;
  int64_t bytes = kiln::bytesOf(summedType(gradient, size));
  if (2 * bytes > kiln::bytesOf(gradient))
    return std::nullopt;
  return bytes;
}

void GradZip::addStates(Alternating &gradient) {
  StateOp parameter = gradient.parameter;
  MLIRContext *context = module.getContext();
  RankedTensorType type = fullPrecision(tensorTypeOf(gradient.part));
  gradient.error = addError(parameter, type);
  auto normal = NormalAttr::get(context, 0.0, 1.0);
  gradient.rowBasis = addState(parameter, support::rowBasisSlot,
                               type.clone({size, type.getDimSize(0)}), normal);
  gradient.basis = addState(parameter, support::basisSlot,
                            type.clone({size, type.getDimSize(1)}), normal);
  gradient.turnState = addState(parameter, support::turnSlot, type.clone({1}),
                                SplatAttr::get(context, 0.0));
}

/// Returns the low-rank factor that this rank contributes to the sum over the
/// ranks in this step: P or Q.
Value GradZip::factorToSum(Alternating &gradient) {
  RowOps o(builder, gradient.part);
  Type element = gradient.error.getTensorType().getElementType();
  gradient.corrected =
      o.create<AddOp>(o.cast(gradient.part, element), read(gradient.error));
  gradient.sumsQ = read(gradient.turnState);
  Value one =
      o.create<ConstantOp>(tensorTypeOf(gradient.sumsQ), 1.0).getResult();
  gradient.sumsP = o.create<SubOp>(one, gradient.sumsQ);
  gradient.fixedP = o.orthonormalRows(read(gradient.rowBasis));
  gradient.fixedQ = o.orthonormalRows(read(gradient.basis));
  gradient.ownP = o.create<MatmulOp>(gradient.fixedQ, gradient.corrected,
                                     /*transA=*/false, /*transB=*/true);
  gradient.ownQ = o.create<MatmulOp>(gradient.fixedP, gradient.corrected,
                                     /*transA=*/false, /*transB=*/false);
  RankedTensorType type = summedType(tensorTypeOf(gradient.part), size);
  auto padded = [&](Value factor) -> Value {
    if (factor.getType() == type)
      return factor;
    return o.create<PadOp>(type, factor, ArrayRef<int64_t>{0, 0});
  };
  return o.create<AddOp>(o.times(padded(gradient.ownP), gradient.sumsP),
                         o.times(padded(gradient.ownQ), gradient.sumsQ));
}

void GradZip::begin(ArrayRef<CompressedGradient> gradients,
                    Operation *position) {
  builder.setInsertionPoint(position);
  bucket.clear();
  factors.clear();
  for (const CompressedGradient &each : gradients) {
    Alternating &gradient = bucket.emplace_back();
    static_cast<CompressedGradient &>(gradient) = each;
    addStates(gradient);
    factors.push_back(factorToSum(gradient));
  }
  factors = sum(factors);
}

/// Returns the sum of a gradient over the ranks, as the product of its two
/// factors, and writes the states. The error of this rank is the part of its
/// gradient that its own factors do not represent.
Value GradZip::restore(Alternating &gradient, Value summed) {
  RowOps o(builder, gradient.part);
  auto factor = [&](Value fixed, Value best, Value isSummed, Value isFixed) {
    return o.create<AddOp>(o.times(best, isSummed), o.times(fixed, isFixed))
        .getResult();
  };
  auto part = [&](Value own) -> Value {
    if (own.getType() == summed.getType())
      return summed;
    return o.create<SliceOp>(own.getType(), summed, ArrayRef<int64_t>{0, 0});
  };
  auto p = [&](Value best) {
    return factor(gradient.fixedP, best, gradient.sumsP, gradient.sumsQ);
  };
  auto q = [&](Value best) {
    return factor(gradient.fixedQ, best, gradient.sumsQ, gradient.sumsP);
  };
  Value left = p(part(gradient.ownP)), right = q(part(gradient.ownQ));
  Value sum = o.create<MatmulOp>(left, right, /*transA=*/true,
                                 /*transB=*/false);
  Value sent = o.create<MatmulOp>(p(gradient.ownP), q(gradient.ownQ),
                                  /*transA=*/true, /*transB=*/false);
  write(gradient.error, o.create<SubOp>(gradient.corrected, sent));
  write(gradient.rowBasis,
        o.create<AddOp>(left, o.scale(gradient.fixedP, kKeptPart)));
  write(gradient.basis,
        o.create<AddOp>(right, o.scale(gradient.fixedQ, kKeptPart)));
  write(gradient.turnState, gradient.sumsP);
  return sum;
}

SmallVector<Value> GradZip::finish(Operation *position) {
  builder.setInsertionPoint(position);
  return llvm::map_to_vector(llvm::zip_equal(bucket, factors), [&](auto pair) {
    return restore(std::get<0>(pair), std::get<1>(pair));
  });
}

std::unique_ptr<GradientScheme>
kiln::createGradZip(const support::GradientCompression &compression,
                    ModuleOp module, ProgramOp train) {
  return std::make_unique<GradZip>(compression, module, train);
}
