//===- QuantizeWeights.cpp - Quantized storage of frozen weights ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/IR/Quantization.h"
#include "kiln/Dialect/Kiln/Transforms/MatmulWeights.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Support/Nf4.h"

namespace kiln {
#define GEN_PASS_DEF_QUANTIZEWEIGHTS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Name of the state with the values of the codes.
static constexpr StringLiteral kTableName = "quantization_table";

/// Replaces the value of `read`, which now reads codes, and its conversions by
/// decoded weights.
static void decode(ReadOp read, RankedTensorType codes, StateOp table) {
  RankedTensorType type = tensorTypeOf(read.getY());
  OpBuilder builder(read);
  Location loc = read.getLoc();
  LayerAttr layer = getDefiningLayer(read.getY());
  auto readState = [&](RankedTensorType type, StringRef name) {
    auto value = ReadOp::create(builder, loc, type, name);
    setLayer(value, layer);
    return value;
  };
  Value encoded = readState(codes, read.getState());
  Value values = readState(table.getTensorType(), table.getSymName());
  auto replace = [&](Operation *op, RankedTensorType type) {
    builder.setInsertionPoint(op);
    auto weight = DequantizeOp::create(builder, op->getLoc(), type,
                                       Quantization::Nf4, encoded, values);
    copyLayer(op, weight);
    op->getResult(0).replaceAllUsesWith(weight.getY());
    op->erase();
  };
  for (Operation *user : llvm::make_early_inc_range(read->getUsers()))
    if (auto cast = dyn_cast<CastOp>(user))
      replace(cast, cast.getType());
  if (read->use_empty())
    read.erase();
  else
    replace(read, type);
}

namespace {

struct QuantizeWeightsPass
    : kiln::impl::QuantizeWeightsBase<QuantizeWeightsPass> {
  using QuantizeWeightsBase::QuantizeWeightsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (encoding != "nf4") {
      emitError(module.getLoc(), "option 'encoding' is '")
          << encoding << "', expected nf4";
      return signalPassFailure();
    }
    llvm::DenseMap<StringAttr, StateOp> states;
    MatmulWeights weights = findMatmulWeights(module, [&](StateOp state) {
      states[state.getSymNameAttr()] = state;
      return state.getFrozen() && !state.getQuantized() &&
             !state.getTensorType().getElementType().isF64();
    });
    StateOp table;
    for (auto &[name, readers] : weights) {
      StateOp state = states.lookup(name);
      if (!table)
        table = createTable(module, state);
      RankedTensorType weight = state.getTensorType();
      int64_t bytes = support::Nf4Layout(weight.getNumElements()).bytes;
      auto codes =
          RankedTensorType::get({bytes}, IntegerType::get(&getContext(), 8));
      state.setType(codes);
      state.setQuantizedAttr(
          QuantizedAttr::get(&getContext(), Quantization::Nf4, weight));
      for (ReadOp read : readers)
        decode(read, codes, table);
    }
    if (!table) {
      emitError(module.getLoc(),
                "the model has no weights to quantize, expected frozen "
                "matrices that only matmuls read: train adapters (--lora)");
      return signalPassFailure();
    }
  }

  StateOp createTable(ModuleOp module, StateOp first) {
    OpBuilder builder(first);
    auto type =
        RankedTensorType::get({kNf4TableElements}, builder.getF32Type());
    std::string name = kTableName.str();
    for (int i = 0; module.lookupSymbol(name); ++i)
      name = (kTableName + Twine(i)).str();
    auto table =
        StateOp::create(builder, module.getLoc(), name, type, Role::Constant,
                        Nf4TableAttr::get(builder.getContext()));
    return table;
  }
};

} // namespace
