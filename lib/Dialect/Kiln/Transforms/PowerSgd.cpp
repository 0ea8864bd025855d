//===- PowerSgd.cpp - Low-rank sums of gradients --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PowerSGD with error feedback and warm start: T. Vogels, S. P. Karimireddy and
// M. Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
// Optimization" (NeurIPS 2019, arXiv:1905.13727). Bases are stored as rows.
//
//===----------------------------------------------------------------------===//

#include "GradientSchemes.h"
#include "kiln/Support/GradientCompression.h"

using namespace mlir;
using namespace kiln;

/// Added to the squared norm of a row, so that a row of zeros remains zero. The
/// smallest normal f32 is about 1e-38.
static constexpr double kLeastSquare = 1e-35;
/// The part of the squared norm of a row before its projection that is added as
/// well. A row that depends on others leaves only rounding errors, which are
/// not orthogonal to the other rows and remain short.
static constexpr double kLeastPart = 1e-10, kLeastPartF64 = 1e-24;
/// Part of the previous basis in the next one, so that a gradient of zeros
/// leaves a basis. Sums that are not negligible absorb it.
static constexpr double kKeptBasis = 1e-15;

namespace {

/// A gradient of the bucket.
struct LowRank : CompressedGradient {
  StateOp error, basis;
  Value corrected; ///< The gradient plus the error of the previous step.
  Value oldBasis, left;
  Value own, right; ///< The second factor of this rank, and its sum.
};

struct RowOps : LayerOps {
  using LayerOps::LayerOps;

  /// Returns the sum of a row of products.
  Value dot(Value a, Value b) {
    RankedTensorType type = tensorTypeOf(a);
    Value products = create<MulOp>(a, b);
    return create<ReduceOp>(type.clone({1}), Reduction::Sum, products,
                            ArrayRef<int64_t>{1});
  }
  /// Multiplies a row by the element of a vector of one element.
  Value times(Value row, Value factor) {
    Value factors =
        create<BroadcastOp>(row.getType(), factor, ArrayRef<int64_t>{0});
    return create<MulOp>(row, factors);
  }
  Value orthonormalRows(Value matrix);
};

class PowerSgd final : public GradientScheme {
public:
  PowerSgd(ModuleOp module, ProgramOp train, int64_t rank)
      : GradientScheme(module, train), rank(rank) {}

  std::string name() const override {
    return "powersgd:" + std::to_string(rank);
  }
  std::string needs() const override {
    return "matrices whose factors have at most half as many bytes";
  }
  std::optional<int64_t> bytesOf(RankedTensorType gradient) const override;
  LogicalResult check() override;
  void begin(ArrayRef<CompressedGradient> gradients,
             Operation *position) override;
  SmallVector<Value> finish(Operation *position) override;

private:
  StateOp addState(StateOp parameter, StringRef slot, RankedTensorType type,
                   ShardAttr shard, Attribute init);
  void addStates(LowRank &gradient);
  void project(LowRank &gradient);
  Value restore(LowRank &gradient);
  Value read(StateOp state);

  int64_t rank;
  SmallVector<LowRank> bucket;
};

} // namespace

/// Orthonormalizes the rows of a matrix with the modified Gram-Schmidt process.
Value RowOps::orthonormalRows(Value matrix) {
  RankedTensorType type = tensorTypeOf(matrix);
  RankedTensorType row = type.clone({1, type.getDimSize(1)});
  Value least = create<ConstantOp>(row.clone({1}), kLeastSquare);
  double part = type.getElementType().isF64() ? kLeastPartF64 : kLeastPart;
  SmallVector<Value> rows;
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    Value next = create<SliceOp>(row, matrix, ArrayRef<int64_t>{i, 0});
    Value lost = create<AddOp>(scale(dot(next, next), part), least);
    for (Value other : rows)
      next = create<SubOp>(next, times(other, dot(next, other)));
    Value square = create<AddOp>(dot(next, next), lost);
    rows.push_back(times(next, create<RsqrtOp>(square)));
  }
  if (rows.size() == 1)
    return rows.front();
  return create<ConcatOp>(type, rows, 0);
}

/// A matrix is compressed if at most half as many bytes are sent.
std::optional<int64_t> PowerSgd::bytesOf(RankedTensorType gradient) const {
  if (gradient.getRank() != 2)
    return std::nullopt;
  int64_t rows = gradient.getDimSize(0), columns = gradient.getDimSize(1);
  int64_t bytes =
      kiln::bytesOf(fullPrecision(gradient.clone({rank, rows + columns})));
  if (2 * bytes > kiln::bytesOf(gradient))
    return std::nullopt;
  return bytes;
}

LogicalResult PowerSgd::check() {
  if (!train.getInput(InputRole::GradientScale))
    return success();
  return train.emitOpError(
      "scales the gradients, and a step whose gradients overflow must not "
      "change the errors of compressed gradients; use a precision without "
      "gradient scaling, such as bf16");
}

StateOp PowerSgd::addState(StateOp parameter, StringRef slot,
                           RankedTensorType type, ShardAttr shard,
                           Attribute init) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(train);
  auto state = StateOp::create(builder, parameter.getLoc(),
                               (parameter.getSymName() + "." + slot).str(),
                               type, Role::Optimizer, init);
  state.setOfAttr(FlatSymbolRefAttr::get(parameter.getSymNameAttr()));
  state.setSlotAttr(builder.getStringAttr(slot));
  if (shard)
    state.setShardAttr(shard);
  symbols.insert(state);
  return state;
}

/// Adds the error of this rank, and the basis, which data-parallel ranks share.
/// A rank of tensor parallelism that has a part of the parameter has states of
/// its own.
void PowerSgd::addStates(LowRank &gradient) {
  StateOp parameter = gradient.parameter;
  MLIRContext *context = module.getContext();
  RankedTensorType type = fullPrecision(tensorTypeOf(gradient.part));
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  int64_t parts = 1;
  for (ShardAttr shard = parameter.getShardAttr(); shard;
       shard = shard.getOuter())
    if (shard.getAxis() == tensorAxis())
      parts = meshSizeOf(module, tensorAxis());
  // Files tell states of different meshes apart by their shapes.
  auto divided = [&](ArrayRef<int64_t> shape) {
    SmallVector<int64_t> whole = {parts};
    llvm::append_range(whole, shape);
    return parts == 1
               ? ShardAttr()
               : ShardAttr::get(context, type.clone(whole), tensorAxis());
  };
  SmallVector<int64_t> errors = {ranks, rows, columns};
  gradient.error =
      addState(parameter, support::errorSlot, type,
               ShardAttr::get(context, type.clone(errors), dataAxis(),
                              /*blocks=*/1, divided(errors)),
               SplatAttr::get(context, 0.0));
  gradient.basis =
      addState(parameter, support::basisSlot, type.clone({rank, columns}),
               divided({rank, columns}), NormalAttr::get(context, 0.0, 1.0));
}

/// Returns the value of a state at the beginning of the step.
Value PowerSgd::read(StateOp state) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&train.getBlock());
  return ReadOp::create(builder, state.getLoc(), state.getType(),
                        state.getSymName());
}

/// Corrects a gradient by the error, and projects it onto the basis.
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
    addStates(gradient);
    project(gradient);
    factors.push_back(gradient.left);
  }
  for (auto [gradient, summed] : llvm::zip_equal(bucket, sum(factors)))
    gradient.left = summed;
}

/// Returns the product of the factors of a sum, and writes the states. The
/// error is what the factors of this rank do not represent.
Value PowerSgd::restore(LowRank &gradient) {
  RowOps o(builder, gradient.part);
  Value sum = o.create<MatmulOp>(gradient.left, gradient.right,
                                 /*transA=*/true, /*transB=*/false);
  Value sent = o.create<MatmulOp>(gradient.left, gradient.own,
                                  /*transA=*/true, /*transB=*/false);
  Value error = o.create<SubOp>(gradient.corrected, sent);
  Value basis =
      o.create<AddOp>(gradient.right, o.scale(gradient.oldBasis, kKeptBasis));
  o.create<WriteOp>(gradient.error.getSymName(), error);
  o.create<WriteOp>(gradient.basis.getSymName(), basis);
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
kiln::createPowerSgd(ModuleOp module, ProgramOp train, int64_t rank) {
  return std::make_unique<PowerSgd>(module, train, rank);
}
