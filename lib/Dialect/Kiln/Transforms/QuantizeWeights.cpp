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

namespace kiln {
#define GEN_PASS_DEF_QUANTIZEWEIGHTS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Name of the state that contains the value of each code.
static constexpr StringLiteral kTableName = "quantization_table";

/// Returns the dimension of a weight that has the size of the input of its
/// layer: 1 if a matmul transposes the weight, and 0 otherwise.
static int64_t inputDimension(ReadOp read) {
  SmallVector<Operation *> users(read->getUsers());
  for (Operation *user : read->getUsers())
    if (isa<CastOp>(user))
      llvm::append_range(users, user->getUsers());
  for (Operation *user : users)
    if (auto matmul = dyn_cast<MatmulOp>(user))
      return matmul.getTransB() ? 1 : 0;
  return 0;
}

/// Replaces `read`, a read of a weight that `state` now stores as codes, and
/// the casts of its result by decoded weights. `table` is null if the encoding
/// has no table.
static void decode(ReadOp read, StateOp state, StateOp table) {
  RankedTensorType type = tensorTypeOf(read.getY());
  OpBuilder builder(read);
  Location loc = read.getLoc();
  LayerAttr layer = getDefiningLayer(read.getY());
  auto readState = [&](StateOp state) -> Value {
    auto value =
        ReadOp::create(builder, loc, state.getTensorType(), state.getSymName());
    setLayer(value, layer);
    return value;
  };
  Value encoded = readState(state);
  Value values = table ? readState(table) : Value();
  auto replace = [&](Operation *op, RankedTensorType type) {
    builder.setInsertionPoint(op);
    auto weight = DequantizeOp::create(
        builder, op->getLoc(), type, state.getQuantizedAttr(), encoded, values);
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
    auto choice = support::parseWeightEncoding(encoding);
    if (!choice.ok()) {
      emitError(module.getLoc(), "option 'encoding' ")
          << choice.status().message();
      return signalPassFailure();
    }
    llvm::DenseMap<StringAttr, StateOp> states;
    MatmulWeights weights = findMatmulWeights(module, [&](StateOp state) {
      states[state.getSymNameAttr()] = state;
      return state.getFrozen() && !state.getQuantized() &&
             !state.getTensorType().getElementType().isF64();
    });
    if (weights.empty()) {
      emitError(module.getLoc(),
                "the model has no weights to quantize, because it has no "
                "frozen matrix that only matmuls read; use --lora, which "
                "freezes the weights");
      return signalPassFailure();
    }
    StateOp table =
        choice->isInt8
            ? StateOp()
            : createTable(module, states.lookup(weights.front().first));
    for (auto &[name, readers] : weights) {
      StateOp state = states.lookup(name);
      QuantizedAttr quantized = encodingOf(state, readers.front(), *choice);
      if (!quantized)
        return signalPassFailure();
      state.setType(
          RankedTensorType::get({support::bytesOf(layoutOf(quantized))},
                                IntegerType::get(&getContext(), 8)));
      state.setQuantizedAttr(quantized);
      for (ReadOp read : readers)
        decode(read, state, table);
    }
  }

  /// Returns the encoding of a weight, or null after an error.
  QuantizedAttr encodingOf(StateOp state, ReadOp reader,
                           const support::WeightEncodingChoice &choice) {
    RankedTensorType type = state.getTensorType();
    if (!choice.isInt8)
      return QuantizedAttr::get(&getContext(), Quantization::Nf4, type, 0, 0,
                                0);
    int64_t inputs = choice.outliers > 0 ? inputDimension(reader) : 0;
    int64_t block = choice.rowScales ? type.getDimSize(1)
                                     : support::Int8Layout::blockElements;
    if (choice.outliers <= type.getDimSize(inputs))
      return QuantizedAttr::get(&getContext(), Quantization::Int8, type, block,
                                choice.outliers, inputs);
    emitError(state.getLoc(), "option 'outliers' is ")
        << choice.outliers << ", expected at most " << type.getDimSize(inputs)
        << ", the number of inputs of this weight";
    return QuantizedAttr();
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
