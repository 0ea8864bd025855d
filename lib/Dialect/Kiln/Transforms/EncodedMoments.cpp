//===- EncodedMoments.cpp - Updates of 8-bit optimizer states -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EncodedMoments.h"

#include "kiln/Support/Dynamic8.h"

using namespace mlir;
using namespace kiln;

/// Returns true if an op reads rows of a matrix, directly or after a
/// conversion.
static bool isTable(Value matrix) {
  return llvm::any_of(matrix.getUsers(), [](Operation *user) {
    if (auto cast = dyn_cast<CastOp>(user))
      return isTable(cast.getY());
    return isa<EmbeddingOp, SliceOp, BroadcastOp>(user);
  });
}

bool kiln::hasWholeBlocks(RankedTensorType type) {
  int64_t elements = type.getNumElements();
  return elements >= kLeastEncoded && elements % support::dynamicBlock == 0;
}

bool kiln::canEncodeMoments(RankedTensorType stored, Value entry) {
  RankedTensorType type = fullPrecision(stored);
  return hasWholeBlocks(type) && type.getElementType().isF32() &&
         !(type.getRank() >= 2 && isTable(entry));
}

ShardAttr kiln::shardOfMoment(ShardAttr parameter, RankedTensorType part,
                               StateOp state) {
  RankedTensorType whole = parameter.getType();
  int64_t ratio =
      state.getTensorType().getNumElements() / part.getNumElements();
  if (ratio > 1) // `part` has one scale per block.
    whole = RankedTensorType::get({whole.getNumElements() / ratio},
                                  part.getElementType());
  return ShardAttr::get(parameter.getContext(),
                        whole.clone(part.getElementType()), parameter.getAxis(),
                        parameter.getBlocks(), Attribute());
}

bool kiln::hasBlocksOfMoments(StateOp state) {
  ShardAttr shard = state.getShardAttr();
  if (!shard)
    return true;
  auto isWhole = [&](RankedTensorType type) {
    return type.getNumElements() / shard.getBlocks() % support::dynamicBlock ==
           0;
  };
  return isWhole(shard.getType()) && isWhole(state.getTensorType());
}

EncodedUpdateOp kiln::buildEncodedUpdate(OpBuilder &builder, Location loc,
                                         const OptimizerSpec &spec,
                                         const UpdateValues &values,
                                         ArrayRef<MomentStorage> storage) {
  auto body = std::make_unique<Block>();
  // Build the update with placeholders for decoded states. Then replace every
  // operand by an argument of the body.
  UpdateValues inner = values;
  inner.states.clear();
  SmallVector<Value> inputs = {values.parameter};
  ArrayRef<Value> rest = values.states;
  auto decoded = cast<RankedTensorType>(
                     inMemory(values.parameter.getType(), MemorySpace::Device))
                     .clone(builder.getF32Type());
  for (MomentStorage stored : storage) {
    bool isEncoded = stored != MomentStorage::Plain;
    inner.states.push_back(isEncoded ? body->addArgument(decoded, loc)
                                     : rest.front());
    llvm::append_range(inputs, rest.take_front(isEncoded ? 2 : 1));
    rest = rest.drop_front(isEncoded ? 2 : 1);
  }
  unsigned placeholders = body->getNumArguments();
  OpBuilder bodyBuilder(builder.getContext());
  bodyBuilder.setInsertionPointToEnd(body.get());
  UpdateOpInterface update = spec.rule->build(bodyBuilder, loc, spec, inner);
  llvm::append_range(inputs,
                     update->getOperands().drop_front(update->getNumResults()));
  for (OpOperand &operand : update->getOpOperands())
    operand.set(body->addArgument(
        inMemory(operand.get().getType(), MemorySpace::Device), loc));
  body->eraseArguments(0, placeholders);
  YieldOp::create(bodyBuilder, loc, update->getResults());

  auto attributes =
      llvm::map_to_vector(storage, [&](MomentStorage stored) -> Attribute {
        return MomentStorageAttr::get(builder.getContext(), stored);
      });
  size_t tensors = 1 + values.states.size();
  auto op = EncodedUpdateOp::create(
      builder, loc, TypeRange(ValueRange(inputs).take_front(tensors)), inputs,
      builder.getArrayAttr(attributes));
  op.getBody().push_back(body.release());
  return op;
}
