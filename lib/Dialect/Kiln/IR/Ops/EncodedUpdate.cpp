//===- EncodedUpdate.cpp - Update of 8-bit optimizer states -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block, a group of elements that share a scale, is a row of the row space.
// In the row program, the arguments of the body stand for loaded and decoded
// values, so the update inside the body appends the same nodes as an update of
// states that are not encoded. For each encoded state, the program then
// computes the largest magnitude of the row and, in a second sweep, the codes.
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "UpdateOps.h"

#include "kiln/Support/Dynamic8.h"

#include <limits>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::support;

using NodeId = row::NodeId;
using Kind = row::Kind;
using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

static DynamicMap mapOf(MomentStorage storage) {
  return storage == MomentStorage::Signed ? DynamicMap::Signed
                                          : DynamicMap::Unsigned;
}

namespace {

/// An optimizer state of the update.
struct State {
  MomentStorage storage;
  /// The index of the operand that is the state or, if the state is encoded,
  /// its codes. The operand after the codes has the scales.
  unsigned operand;

  bool isEncoded() const { return storage != MomentStorage::Plain; }
};

} // namespace

/// Returns the optimizer states. Requires that `storage` is valid.
static SmallVector<State, 2> statesOf(EncodedUpdateOp op) {
  SmallVector<State, 2> states;
  unsigned next = 1;
  for (unsigned i = 0, e = op.getStorage().size(); i < e; ++i) {
    states.push_back({op.getStorageOf(i), next});
    next += states.back().isEncoded() ? 2 : 1;
  }
  return states;
}

LogicalResult EncodedUpdateOp::verify() {
  SmallVector<State, 2> states = statesOf(*this);
  unsigned count = getNumUpdated();
  if (llvm::none_of(states, [](const State &s) { return s.isEncoded(); }))
    return emitOpError("stores no state as codes, expected at least one entry "
                       "'signed' or 'unsigned' in 'storage'"); // C3
  if (getNumOperands() <= count)
    return emitOpError("has ")
           << getNumOperands() << " operands, expected a parameter, "
           << count - 1 << " tensors of optimizer states, and a gradient"; // C3
  unsigned results = getNumResults();
  if (results < count || results > count + 1 ||
      getOutputs().take_front(count).getTypes() !=
          getInputs().take_front(count).getTypes())
    return emitOpError("has result types that differ from those of its first ")
           << count
           << " operands, the parameter and the optimizer states"; // C6
  RankedTensorType parameter = tensorTypeOf(getInputs().front());
  int64_t elements = parameter.getNumElements();
  if (elements % dynamicBlock != 0 ||
      computeType(elementTypeOf(parameter)) != ElementType::F32)
    return emitOpError("updates a parameter of type ")
           << parameter
           << ", expected a number of elements that is a multiple of "
           << dynamicBlock
           << ", and an element type whose arithmetic is computed in f32"; // C5
  int64_t blocks = elements / dynamicBlock;
  for (const State &state : states) {
    if (!state.isEncoded())
      continue;
    auto codes = tensorTypeOf(getInputs()[state.operand]),
         scales = tensorTypeOf(getInputs()[state.operand + 1]);
    if (codes.getShape() != parameter.getShape() ||
        !codes.getElementType().isInteger(8) ||
        scales.getShape() != ArrayRef(blocks) ||
        !scales.getElementType().isF32())
      return emitOpError("has codes of type ")
             << codes << " and scales of type " << scales << ", expected i8 "
             << "codes of shape " << toString(parameter.getShape()) << " and "
             << blocks << " f32 scales"; // C4
  }
  return success();
}

LogicalResult EncodedUpdateOp::verifyRegions() {
  Block &block = getBody().front();
  auto update = dyn_cast<UpdateOpInterface>(block.front());
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!update || !yield || update->getNextNode() != yield ||
      update->getResults() != yield.getOperands() ||
      update->getOperands() != block.getArguments())
    return emitOpError("must have a body of two ops: an update op that takes "
                       "the arguments of the body, and a kiln.yield of its "
                       "results"); // C1
  SmallVector<Type> expected;
  auto add = [&](Type type) {
    expected.push_back(inMemory(type, MemorySpace::Device));
  };
  if (!!update.getCopy() != (getNumResults() > getNumUpdated()))
    return emitOpError("has ")
           << getNumResults() << " results, expected " << getNumUpdated()
           << ", plus one if the update in the body returns a copy of the "
              "parameter"; // C6
  auto types = getInputs().getTypes();
  add(types.front());
  Builder builder(getContext());
  for (const State &state : statesOf(*this))
    add(state.isEncoded()
            ? cast<RankedTensorType>(types[0]).clone(builder.getF32Type())
            : cast<RankedTensorType>(types[state.operand]));
  for (Value input : getInputs().drop_front(getNumUpdated()))
    add(input.getType());
  if (update.getNumUpdated() != getStorage().size() + 1 ||
      block.getArgumentTypes() != TypeRange(expected))
    return emitOpError(
        "must have a body with these arguments: the parameter, one tensor for "
        "each entry of 'storage', the gradient and the scalars"); // C2
  return success();
}

unsigned EncodedUpdateOp::getNumUpdated() {
  unsigned count = 1;
  for (const State &state : statesOf(*this))
    count += state.isEncoded() ? 2 : 1;
  return count;
}

int64_t EncodedUpdateOp::getTiedOperand(unsigned result) {
  return result < getNumUpdated() ? int64_t(result) : -1;
}

RowSpace EncodedUpdateOp::getRowSpace() {
  int64_t elements = tensorTypeOf(getInputs().front()).getNumElements();
  return {elements / dynamicBlock, dynamicBlock, /*flexible=*/false};
}

LogicalResult EncodedUpdateOp::buildRows(RowBuilder &rows) {
  UpdateOpInterface update = getUpdate();
  Block &block = getBody().front();
  SmallVector<State, 2> states = statesOf(*this);
  bool isValid = true;
  // Makes the body argument number `argument` stand for `node`.
  auto bind = [&](unsigned argument, NodeId node) {
    if (!areValid({node}))
      isValid = false;
    else
      rows.set(block.getArgument(argument), node);
  };
  bind(0, rows.full(getInputs().front()));
  SmallVector<NodeId, 4> old;
  for (auto [i, state] : llvm::enumerate(states)) {
    NodeId node = rows.full(getInputs()[state.operand]);
    if (state.isEncoded() && isValid) {
      NodeId scale = rows.perRow(getInputs()[state.operand + 1]);
      if (!areValid({node, scale}))
        return failure();
      bool isSigned = state.storage == MomentStorage::Signed;
      node = rows.mul(
          rows.decode(isSigned ? Kind::DecodeSigned : Kind::DecodeUnsigned,
                      node),
          scale);
    }
    bind(i + 1, node);
  }
  unsigned argument = states.size() + 1;
  for (Value input : getInputs().drop_front(getNumUpdated()))
    bind(argument++, tensorTypeOf(input).getRank() == 0 ? rows.scalar(input)
                                                        : rows.full(input));
  if (!isValid || failed(cast<RowOpInterface>(*update).buildRows(rows)))
    return failure();

  NodeId skips = skippedStep(rows, update);
  auto set = [&](unsigned result, NodeId value, NodeId old) {
    rows.set(getResult(result),
             skips >= 0 ? rows.select(skips, old, value) : value);
  };
  rows.set(getResult(0), rows.full(update->getResult(0)));
  if (update.getCopy())
    rows.set(getOutputs().back(), rows.full(update.getCopy()));
  for (auto [i, state] : llvm::enumerate(states)) {
    NodeId value = rows.full(update->getResult(i + 1));
    if (!state.isEncoded()) {
      rows.set(getResult(state.operand), value);
      continue;
    }
    // Replace NaN by infinity, because reduceMax would ignore a NaN.
    NodeId magnitude = rows.binary(
        Kind::Min,
        rows.constant(std::numeric_limits<double>::infinity(), row::Type::F32),
        rows.unary(Kind::Abs, value));
    NodeId scale = rows.reduceMax(magnitude);
    NodeId inverse =
        rows.div(rows.constantLike(1, scale),
                 rows.binary(Kind::Max, scale,
                             rows.constantLike(leastDynamicScale, scale)));
    bool isSigned = state.storage == MomentStorage::Signed;
    NodeId code =
        rows.encode(isSigned ? Kind::EncodeSigned : Kind::EncodeUnsigned,
                    rows.mul(value, inverse));
    set(state.operand, code, rows.full(getInputs()[state.operand]));
    set(state.operand + 1, scale, rows.perRow(getInputs()[state.operand + 1]));
  }
  return success();
}

/// Decodes the states, evaluates the update in the body, and encodes the new
/// states. The update is evaluated in f64, and its results are rounded to f32
/// before they are encoded.
LogicalResult EncodedUpdateOp::evaluate(Operands operands, Results results) {
  UpdateOpInterface update = getUpdate();
  SmallVector<State, 2> states = statesOf(*this);
  unsigned scalars = getNumUpdated();
  auto real = [](RankedTensorType type) {
    return HostTensor(type.clone(Float64Type::get(type.getContext())));
  };
  RankedTensorType shape = tensorTypeOf(getInputs().front());
  SmallVector<HostTensor, 2> decoded;
  for (const State &state : states) {
    HostTensor &tensor = decoded.emplace_back(real(shape));
    if (!state.isEncoded())
      continue;
    const auto &values = dynamicValues(mapOf(state.storage));
    for (int64_t i = 0, e = tensor.size(); i < e; ++i) {
      auto code = static_cast<uint8_t>(operands[state.operand]->integers[i]);
      auto scale = static_cast<float>(
          operands[state.operand + 1]->reals[i / dynamicBlock]);
      tensor.reals[i] = values[code] * scale;
    }
  }
  SmallVector<const HostTensor *> inner = {operands[0]};
  SmallVector<HostTensor, 3> updated = {real(shape)};
  for (auto [state, tensor] : llvm::zip(states, decoded)) {
    inner.push_back(state.isEncoded() ? &tensor : operands[state.operand]);
    updated.push_back(real(shape));
  }
  if (update.getCopy())
    updated.push_back(real(shape));
  llvm::append_range(inner, operands.drop_front(scalars));
  if (failed(cast<ReferenceOpInterface>(*update).evaluate(inner, updated)))
    return failure();
  bool skips = update.getApply() && operands.back()->integers[0] == 0;
  results[0].reals = updated[0].reals;
  if (update.getCopy())
    results.back().reals = updated.back().reals;
  for (auto [i, state] : llvm::enumerate(states)) {
    const std::vector<double> &numbers = updated[i + 1].reals;
    if (!state.isEncoded()) {
      results[state.operand].reals = numbers;
      continue;
    }
    HostTensor &codes = results[state.operand];
    HostTensor &scales = results[state.operand + 1];
    if (skips) {
      codes.integers = operands[state.operand]->integers;
      scales.reals = operands[state.operand + 1]->reals;
      continue;
    }
    for (int64_t block = 0, e = scales.size(); block < e; ++block) {
      float rounded[dynamicBlock];
      uint8_t encoded[dynamicBlock];
      int64_t first = block * dynamicBlock;
      for (int64_t i = 0; i < dynamicBlock; ++i)
        rounded[i] = static_cast<float>(numbers[first + i]);
      scales.reals[block] = encodeDynamicBlock(mapOf(state.storage), rounded,
                                               dynamicBlock, encoded);
      for (int64_t i = 0; i < dynamicBlock; ++i)
        codes.integers[first + i] = static_cast<int8_t>(encoded[i]);
    }
  }
  return success();
}
