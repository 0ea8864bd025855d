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
  /// The parameters that are updated with the results of collectives.
  DenseMap<Value, StateOp> parameters;
  SmallVector<Attribute> encoded;
};

} // namespace

/// Sums the results of a collective that are not compressed with one of its
/// own, before it.
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
          "sums the gradients of each micro-batch over ranks, but only those "
          "of a step can be compressed; use zero=1 or one micro-batch");
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
    return train.emitOpError("sums no gradient over data-parallel ranks that ")
           << scheme.name() << " can compress: it compresses "
           << scheme.needs();
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
    ModuleOp module = getOperation();
    auto compression = support::parseGradientCompression(scheme);
    if (!compression.ok() || !compression->any()) {
      emitError(module.getLoc(), "scheme ")
          << (compression.ok() ? "is '', expected one such as powersgd:4"
                               : compression.status().message());
      return signalPassFailure();
    }
    for (ProgramOp program : module.getOps<ProgramOp>()) {
      if (program.getKind() != ProgramKind::Train)
        continue;
      std::unique_ptr<GradientScheme> chosen =
          compression->isInt8
              ? createInt8Sums(module, program)
              : createPowerSgd(module, program, compression->rank);
      if (failed(Compressor(module, program, *chosen).run()))
        return signalPassFailure();
    }
  }
};

} // namespace
