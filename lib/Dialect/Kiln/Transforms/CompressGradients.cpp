//===- CompressGradients.cpp - Sums of compressed gradients -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientSchemes.h"
#include "StartCollectives.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"
#include "kiln/Support/GradientCompression.h"

namespace kiln {
#define GEN_PASS_DEF_COMPRESSGRADIENTS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

SmallVector<Value> GradientScheme::sum(ArrayRef<Value> values) {
  auto reduce =
      AllReduceOp::create(builder, values.back().getLoc(), values, dataAxis());
  setLayer(reduce, getDefiningLayer(values.back()));
  return SmallVector<Value>(reduce->getResults());
}

LogicalResult GradientScheme::check() {
  if (!compression.hasStates() || !train.getInput(InputRole::GradientScale))
    return success();
  return train.emitOpError(
      "scales the gradients and skips steps whose gradients overflow, but such "
      "a step would still update the error feedback of the compression; use a "
      "precision without gradient scaling, such as bf16");
}

StateOp GradientScheme::addState(StateOp parameter, StringRef slot,
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

ShardAttr GradientScheme::dividedOf(StateOp parameter, RankedTensorType type) {
  int64_t parts = 1;
  for (ShardAttr shard = parameter.getShardAttr(); shard;
       shard = shard.getOuter())
    if (shard.getAxis() == tensorAxis())
      parts = meshSizeOf(module, tensorAxis());
  if (parts == 1)
    return ShardAttr();
  // The first dimension of the whole tensor is the number of ranks that
  // divide it, so that states of different meshes have different shapes in
  // files.
  SmallVector<int64_t> whole = {parts};
  llvm::append_range(whole, type.getShape());
  return ShardAttr::get(module.getContext(), type.clone(whole), tensorAxis());
}

StateOp GradientScheme::addState(StateOp parameter, StringRef slot,
                                 RankedTensorType type, Attribute init) {
  return addState(parameter, slot, type, dividedOf(parameter, type), init);
}

StateOp GradientScheme::addError(StateOp parameter, RankedTensorType gradient) {
  SmallVector<int64_t> shape = {ranks};
  llvm::append_range(shape, gradient.getShape());
  RankedTensorType whole = gradient.clone(shape);
  auto shard = ShardAttr::get(module.getContext(), whole, dataAxis(),
                              /*blocks=*/1, dividedOf(parameter, whole));
  return addState(parameter, support::errorSlot, gradient, shard,
                  SplatAttr::get(module.getContext(), 0.0));
}

Value GradientScheme::read(StateOp state) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&train.getBlock());
  return ReadOp::create(builder, state.getLoc(), state.getType(),
                        state.getSymName());
}

void GradientScheme::write(StateOp state, Value value) {
  auto op = WriteOp::create(builder, value.getLoc(), state.getSymName(), value);
  setLayer(op, getDefiningLayer(value));
}

namespace {

class Compressor {
public:
  Compressor(ModuleOp module, ProgramOp train, GradientScheme &scheme)
      : module(module), train(train), scheme(scheme),
        builder(module.getContext()) {}

  LogicalResult run();

private:
  void compress(Operation *collective);
  void replaceOthers(Operation *collective, ArrayRef<OpResult> others);

  ModuleOp module;
  ProgramOp train;
  GradientScheme &scheme;
  OpBuilder builder;
  /// Maps results of collectives to the parameters that are updated with them.
  DenseMap<Value, StateOp> parameters;
  SmallVector<Attribute> encoded;
};

} // namespace

/// Inserts another collective before `collective` for `others`, the results
/// that are not compressed.
void Compressor::replaceOthers(Operation *collective,
                               ArrayRef<OpResult> others) {
  if (others.empty())
    return;
  SmallVector<Value> parts;
  SmallVector<Type> types;
  SmallVector<int64_t> owners;
  for (OpResult other : others) {
    parts.push_back(collective->getOperand(other.getResultNumber()));
    types.push_back(other.getType());
    owners.push_back(ownerOfTensor(collective, other.getResultNumber()));
  }
  builder.setInsertionPoint(collective);
  Operation *rest;
  if (isa<AllReduceOp>(collective))
    rest =
        AllReduceOp::create(builder, collective->getLoc(), parts, dataAxis());
  else
    rest = ReduceScatterOp::create(builder, collective->getLoc(), types, parts,
                                   dataAxis(),
                                   ownersAttr(builder.getContext(), owners));
  copyLayer(collective, rest);
  for (auto [other, result] : llvm::zip_equal(others, rest->getResults()))
    Value(other).replaceAllUsesWith(result);
}

void Compressor::compress(Operation *collective) {
  SmallVector<CompressedGradient> gradients;
  SmallVector<OpResult> sums, others; // Results of the collective.
  for (auto [part, sum] :
       llvm::zip_equal(collective->getOperands(), collective->getResults())) {
    auto found = parameters.find(sum);
    std::optional<int64_t> bytes;
    if (found != parameters.end())
      bytes = scheme.bytesOf(tensorTypeOf(part));
    if (!bytes) {
      others.push_back(sum);
      continue;
    }
    sums.push_back(sum);
    gradients.push_back({part, found->second});
    encoded.push_back(
        EncodedAttr::get(module.getContext(), found->second.getSymNameAttr(),
                         builder.getStringAttr(scheme.name()), /*lossy=*/true,
                         bytesOf(part.getType()), *bytes));
  }
  if (gradients.empty())
    return;
  Operation *reader = firstReader(collective);
  scheme.begin(gradients, collective);
  replaceOthers(collective, others);
  for (auto [gradient, sum, whole] :
       llvm::zip_equal(gradients, sums, scheme.finish(reader))) {
    builder.setInsertionPoint(reader);
    LayerOps o(builder, gradient.part);
    RankedTensorType type = tensorTypeOf(sum);
    Value result = whole;
    if (isa<ReduceScatterOp>(collective))
      result = o.create<TakeShardOp>(
          type.clone(tensorTypeOf(whole).getElementType()), whole, dataAxis(),
          ownerAttr(builder.getContext(),
                    ownerOfTensor(collective, sum.getResultNumber())));
    Value(sum).replaceAllUsesWith(o.cast(result, type.getElementType()));
  }
  collective->erase();
}

LogicalResult Compressor::run() {
  for (auto microbatches : train.getBlock().getOps<MicrobatchesOp>())
    if (!microbatches.getBody().getOps<ReduceScatterOp>().empty())
      return train.emitOpError(
          "sums gradients over ranks in each micro-batch, but only sums that "
          "are computed once per step can be compressed; set the option "
          "whole-gradients of kiln-build-step");
  if (failed(scheme.check()))
    return failure();
  for (const StateUpdate &update : findUpdates(module, train))
    for (OpResult gradient : gradientsOf(update))
      parameters[gradient] = update.parameter;
  SmallVector<Operation *> collectives;
  for (Operation &op : train.getBlock())
    if (isa<AllReduceOp, ReduceScatterOp>(op) &&
        cast<CollectiveOpInterface>(op).getAxisAttr() == dataAxis())
      collectives.push_back(&op);
  for (Operation *collective : collectives)
    compress(collective);
  if (encoded.empty())
    return train.emitOpError("has no compressible gradient among those that "
                             "data-parallel ranks sum: ")
           << scheme.name() << " compresses " << scheme.needs();
  SmallVector<Attribute> all;
  if (auto list = module->getAttrOfType<ArrayAttr>(kEncodedAttr))
    llvm::append_range(all, list);
  llvm::append_range(all, encoded);
  module->setAttr(kEncodedAttr, builder.getArrayAttr(all));
  return success();
}

static SchemeFactory *factoryOf(support::CompressionScheme scheme) {
  switch (scheme) {
  case support::CompressionScheme::None:
    break;
  case support::CompressionScheme::Int8:
    return createInt8Sums;
  case support::CompressionScheme::PowerSgd:
    return createPowerSgd;
  case support::CompressionScheme::GradZip:
    return createGradZip;
  case support::CompressionScheme::CountSketch:
    return createCountSketch;
  }
  llvm_unreachable("no scheme");
}

namespace {

struct CompressGradientsPass
    : kiln::impl::CompressGradientsBase<CompressGradientsPass> {
  using CompressGradientsBase::CompressGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto compression = support::parseGradientCompression(scheme);
    if (!compression.ok() || !compression->any()) {
      emitError(module.getLoc(), "scheme ")
          << (compression.ok()
                  ? "is '', expected the name of a scheme, such as powersgd:4"
                  : compression.status().message());
      return signalPassFailure();
    }
    for (ProgramOp program : module.getOps<ProgramOp>()) {
      if (program.getKind() != ProgramKind::Train)
        continue;
      if (failed(Compressor(module, program,
                            *factoryOf(compression->scheme)(*compression,
                                                            module, program))
                     .run()))
        return signalPassFailure();
    }
  }
};

} // namespace
