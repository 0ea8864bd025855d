//===- CompressGradients.cpp - Low-rank sums of gradients -------*- C++ -*-===//
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

#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"
#include "kiln/Support/GradientCompression.h"

namespace kiln {
#define GEN_PASS_DEF_COMPRESSGRADIENTS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Added to the squared norm of a row, so that a row of zeros remains zero. The
/// smallest normal f32 is about 1e-38.
static constexpr double kLeastSquare = 1e-35;
/// Part of the previous basis in the next one, so that a gradient of zeros
/// leaves a basis. Sums that are not negligible absorb it.
static constexpr double kKeptBasis = 1e-15;

namespace {

/// A gradient that ranks sum in compressed form.
struct LowRank {
  OpResult sum; ///< Of the all-reduce or reduce-scatter.
  Value part;   ///< The gradient of this rank: the operand.
  StateOp parameter;
  StateOp error, basis;
  Value corrected; ///< The gradient plus the error of the previous step.
  Value oldBasis, left, right;
};

/// Builds ops at the insertion point.
struct Ops {
  OpBuilder &builder;
  Location loc;
  LayerAttr layer;

  template <typename Op, typename... Args>
  Op create(Args &&...args) {
    auto op = Op::create(builder, loc, std::forward<Args>(args)...);
    setLayer(op, layer);
    return op;
  }
  Value cast(Value value, Type element) {
    RankedTensorType type = tensorTypeOf(value);
    return type.getElementType() == element
               ? value
               : create<CastOp>(type.clone(element), value).getResult();
  }
  Value scale(Value value, double factor) {
    return create<ScaleOp>(value, builder.getF64FloatAttr(factor));
  }
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

} // namespace

/// Orthonormalizes the rows of a matrix with the modified Gram-Schmidt process.
Value Ops::orthonormalRows(Value matrix) {
  RankedTensorType type = tensorTypeOf(matrix);
  RankedTensorType row = type.clone({1, type.getDimSize(1)});
  Value least =
      create<ConstantOp>(row.clone({1}), kLeastSquare);
  SmallVector<Value> rows;
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    Value next = create<SliceOp>(row, matrix, ArrayRef<int64_t>{i, 0});
    for (Value other : rows)
      next = create<SubOp>(next, times(other, dot(next, other)));
    Value square = create<AddOp>(dot(next, next), least);
    rows.push_back(times(next, create<RsqrtOp>(square)));
  }
  if (rows.size() == 1)
    return rows.front();
  return create<ConcatOp>(type, rows, 0);
}

namespace {

class Compressor {
public:
  Compressor(ModuleOp module, ProgramOp train, int64_t rank)
      : module(module), train(train), symbols(module), rank(rank),
        ranks(meshSizeOf(module, dataAxis())), builder(module.getContext()) {}

  LogicalResult run();

private:
  void findParameters();
  bool isWorthwhile(RankedTensorType type) const;
  StateOp addState(StateOp parameter, StringRef slot, RankedTensorType type,
                   ShardAttr shard, Attribute init);
  void addStates(LowRank &gradient);
  void compress(Operation *collective);
  void project(LowRank &gradient);
  SmallVector<Value> sum(ArrayRef<Value> values, Operation *like);
  void restore(LowRank &gradient);
  Ops ops(const LowRank &gradient) {
    return {builder, gradient.part.getLoc(),
            getDefiningLayer(gradient.part)};
  }
  Value read(StateOp state);

  ModuleOp module;
  ProgramOp train;
  SymbolTable symbols;
  int64_t rank, ranks;
  OpBuilder builder;
  /// The parameters that are updated with the results of collectives.
  DenseMap<Value, StateOp> parameters;
  SmallVector<Attribute> encoded;
};

} // namespace

void Compressor::findParameters() {
  for (const StateUpdate &update : findUpdates(module, train))
    for (OpResult gradient : gradientsOf(update))
      parameters[gradient] = update.parameter;
}

/// Returns true if at most half as many numbers are sent for a matrix of a type.
bool Compressor::isWorthwhile(RankedTensorType type) const {
  if (type.getRank() != 2)
    return false;
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  return 2 * rank * (rows + columns) <= rows * columns;
}

StateOp Compressor::addState(StateOp parameter, StringRef slot,
                             RankedTensorType type, ShardAttr shard,
                             Attribute init) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(train);
  auto state = StateOp::create(
      builder, parameter.getLoc(),
      (parameter.getSymName() + "." + slot).str(), type, Role::Optimizer, init);
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
void Compressor::addStates(LowRank &gradient) {
  StateOp parameter = gradient.parameter;
  MLIRContext *context = module.getContext();
  RankedTensorType type = fullPrecision(tensorTypeOf(gradient.part));
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  int64_t parts = 1;
  for (ShardAttr shard = parameter.getShardAttr(); shard;
       shard = shard.getOuter())
    if (shard.getAxis() == tensorAxis())
      parts = meshSizeOf(module, tensorAxis());
  auto divided = [&](int64_t count, int64_t width) {
    return parts == 1 ? ShardAttr()
                      : ShardAttr::get(context,
                                       type.clone({parts * count, width}),
                                       tensorAxis());
  };
  gradient.error = addState(
      parameter, support::errorSlot, type,
      ShardAttr::get(context, type.clone({ranks * rows, columns}), dataAxis(),
                     /*blocks=*/1, divided(ranks * rows, columns)),
      SplatAttr::get(context, 0.0));
  gradient.basis = addState(parameter, support::basisSlot, type.clone({rank, columns}),
                            divided(rank, columns),
                            NormalAttr::get(context, 0.0, 1.0));
}

/// Returns the value of a state at the beginning of the step.
Value Compressor::read(StateOp state) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&train.getBlock());
  return ReadOp::create(builder, state.getLoc(), state.getType(),
                        state.getSymName());
}

/// Corrects a gradient by the error, and projects it onto the basis.
void Compressor::project(LowRank &gradient) {
  Ops o = ops(gradient);
  Type element = gradient.error.getTensorType().getElementType();
  gradient.corrected = o.create<AddOp>(o.cast(gradient.part, element),
                                       read(gradient.error));
  gradient.oldBasis = o.orthonormalRows(read(gradient.basis));
  gradient.left = o.create<MatmulOp>(gradient.oldBasis, gradient.corrected,
                                     /*transA=*/false, /*transB=*/true);
}

/// Sums values over the ranks with one collective.
SmallVector<Value> Compressor::sum(ArrayRef<Value> values, Operation *like) {
  if (values.empty())
    return {};
  auto reduce =
      AllReduceOp::create(builder, like->getLoc(), values, dataAxis());
  copyLayer(like, reduce);
  return SmallVector<Value>(reduce->getResults());
}

/// Replaces the sum by the product of its factors, and writes the states.
void Compressor::restore(LowRank &gradient) {
  Ops o = ops(gradient);
  Value sum = o.create<MatmulOp>(gradient.left, gradient.right,
                                 /*transA=*/true, /*transB=*/false);
  // The ranks share the error of the sum: only the sum of their errors matters,
  // because all that they send depends linearly on the corrected gradients.
  Value error = o.create<SubOp>(gradient.corrected,
                                o.scale(sum, 1.0 / double(ranks)));
  Value basis = o.create<AddOp>(gradient.right,
                                o.scale(gradient.oldBasis, kKeptBasis));
  o.create<WriteOp>(gradient.error.getSymName(), error);
  o.create<WriteOp>(gradient.basis.getSymName(), basis);
  RankedTensorType type = tensorTypeOf(gradient.sum);
  if (isa<ReduceScatterOp>(gradient.sum.getOwner()))
    sum = o.create<TakeShardOp>(
        type.clone(tensorTypeOf(sum).getElementType()), sum, dataAxis());
  gradient.sum.replaceAllUsesWith(o.cast(sum, type.getElementType()));
}

/// Returns the first reader of a result of an op, in its block.
static Operation *firstReader(Operation *op) {
  Block *block = op->getBlock();
  Operation *first = block->getTerminator();
  for (Operation *user : op->getUsers())
    if (Operation *reader = block->findAncestorOpInBlock(*user);
        reader->isBeforeInBlock(first))
      first = reader;
  return first;
}

/// Sums the matrices of a bucket in compressed form. The first factors are
/// summed in place of the matrices, so that this transfer overlaps with the ops
/// before the readers of the bucket, and the second factors before the readers.
void Compressor::compress(Operation *collective) {
  SmallVector<LowRank> matrices;
  SmallVector<OpResult> others;
  for (auto [part, sum] : llvm::zip_equal(collective->getOperands(),
                                          collective->getResults())) {
    auto found = parameters.find(sum);
    if (found != parameters.end() && isWorthwhile(tensorTypeOf(part))) {
      LowRank &gradient = matrices.emplace_back();
      gradient.sum = sum;
      gradient.part = part;
      gradient.parameter = found->second;
    } else {
      others.push_back(sum);
    }
  }
  if (matrices.empty())
    return;
  Operation *reader = firstReader(collective);
  builder.setInsertionPoint(collective);
  SmallVector<Value> factors;
  for (LowRank &gradient : matrices) {
    addStates(gradient);
    project(gradient);
    factors.push_back(gradient.left);
    encoded.push_back(EncodedAttr::get(
        module.getContext(), gradient.parameter.getSymNameAttr(),
        builder.getStringAttr("powersgd:" + Twine(rank)), /*lossy=*/true,
        bytesOf(gradient.part.getType()),
        bytesOf(gradient.left.getType()) +
            bytesOf(gradient.basis.getType())));
  }
  SmallVector<Value> sums = sum(factors, collective);
  for (auto [gradient, summed] : llvm::zip_equal(matrices, sums))
    gradient.left = summed;

  if (!others.empty()) {
    SmallVector<Value> parts;
    SmallVector<Type> types;
    for (OpResult other : others) {
      parts.push_back(collective->getOperand(other.getResultNumber()));
      types.push_back(other.getType());
    }
    Operation *rest;
    if (isa<AllReduceOp>(collective))
      rest = AllReduceOp::create(builder, collective->getLoc(), parts,
                                 dataAxis());
    else
      rest = ReduceScatterOp::create(builder, collective->getLoc(), types,
                                     parts, dataAxis());
    copyLayer(collective, rest);
    for (auto [other, result] : llvm::zip_equal(others, rest->getResults()))
      other.replaceAllUsesWith(result);
  }

  builder.setInsertionPoint(reader);
  factors.clear();
  for (LowRank &gradient : matrices) {
    Ops o = ops(gradient);
    gradient.left = o.orthonormalRows(gradient.left);
    factors.push_back(o.create<MatmulOp>(gradient.left, gradient.corrected,
                                         /*transA=*/false, /*transB=*/false));
  }
  sums = sum(factors, collective);
  for (auto [gradient, summed] : llvm::zip_equal(matrices, sums)) {
    gradient.right = summed;
    restore(gradient);
  }
  collective->erase();
}

LogicalResult Compressor::run() {
  if (train.getInput(InputRole::GradientScale))
    return train.emitOpError(
        "scales the gradients, and a step whose gradients overflow must not "
        "change the errors of compressed gradients; use a precision without "
        "gradient scaling, such as bf16");
  for (auto microbatches : train.getBlock().getOps<MicrobatchesOp>())
    if (!microbatches.getBody().getOps<ReduceScatterOp>().empty())
      return train.emitOpError(
          "sums the gradients of each micro-batch over ranks, but only those "
          "of a step can be compressed; use zero=1 or one micro-batch");
  findParameters();
  SmallVector<Operation *> collectives;
  for (Operation &op : train.getBlock())
    if (isa<AllReduceOp, ReduceScatterOp>(op) &&
        cast<CollectiveOpInterface>(op).getAxisAttr() == dataAxis())
      collectives.push_back(&op);
  for (Operation *collective : collectives)
    compress(collective);
  if (encoded.empty())
    return train.emitOpError("sums no gradient over data-parallel ranks that "
                             "has at least ")
           << 2 * rank
           << " times as many elements as rows and columns, so none can be "
              "compressed to rank "
           << rank << "; use a smaller rank";
  SmallVector<Attribute> all;
  if (auto list = module->getAttrOfType<ArrayAttr>(kEncodedAttr))
    llvm::append_range(all, list);
  llvm::append_range(all, encoded);
  module->setAttr(kEncodedAttr, builder.getArrayAttr(all));
  return success();
}

namespace {

struct CompressGradientsPass
    : kiln::impl::CompressGradientsBase<CompressGradientsPass> {
  using CompressGradientsBase::CompressGradientsBase;

  void runOnOperation() override {
    if (rank < 1) {
      emitError(getOperation().getLoc(), "rank is ")
          << rank.getValue() << ", expected a positive number";
      return signalPassFailure();
    }
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train &&
          failed(Compressor(getOperation(), program, rank).run()))
        return signalPassFailure();
  }
};

} // namespace
