//===- WrapMicrobatches.cpp - Sums over micro-batches -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WrapMicrobatches.h"

#include "kiln/Dialect/Kiln/IR/Layer.h"

using namespace mlir;
using namespace kiln;

LogicalResult kiln::wrapMicrobatches(ProgramOp program, int64_t microbatches,
                                     const abi::SegmentOrder &order,
                                     ArrayRef<Operation *> complete) {
  if (microbatches == 1)
    return success();
  OpBuilder builder(program.getContext());
  Block &block = program.getBlock();
  Operation *ret = block.getTerminator();
  if (auto writes = block.getOps<WriteOp>(); !writes.empty()) {
    WriteOp write = *writes.begin();
    return write.emitOpError("would write ")
           << write.getStateAttr()
           << " once per micro-batch; use a single micro-batch";
  }

  SmallVector<BlockArgument> slicedArguments;
  SmallVector<Type> partTypes;
  for (InputRole role :
       {InputRole::Tokens, InputRole::Targets, InputRole::Rng, InputRole::Data})
    for (BlockArgument argument : block.getArguments()) {
      InputAttr fact = program.getInputFact(argument.getArgNumber());
      if (!fact || fact.getRole() != role || !fact.getBatchDim())
        continue;
      slicedArguments.push_back(argument);
      partTypes.push_back(argument.getType());
      auto type = tensorTypeOf(argument);
      SmallVector<int64_t> shape(type.getShape());
      if (microbatches > INT32_MAX / shape[0])
        return program.emitOpError("cannot have ")
               << microbatches << " micro-batches of " << shape[0]
               << " sequences, because the batch would have more than "
                  "2147483647 sequences; use fewer micro-batches";
      shape[0] *= microbatches;
      argument.setType(RankedTensorType::get(shape, type.getElementType()));
    }
  program.setFunctionType(builder.getFunctionType(block.getArgumentTypes(),
                                                  program.getResultTypes()));

  builder.setInsertionPoint(ret);
  SmallVector<Value> sliced(slicedArguments.begin(), slicedArguments.end());
  SmallVector<Type> sumTypes(ret->getOperandTypes());
  OrderAttr orderAttr;
  if (order != abi::SegmentOrder())
    orderAttr = OrderAttr::get(builder.getContext(), order.text());
  auto loop = MicrobatchesOp::create(
      builder, program.getLoc(), sumTypes, sliced,
      builder.getI64IntegerAttr(microbatches), orderAttr, /*segmentsCount=*/1);
  Block *body = new Block();
  loop.getSegments().front().push_back(body);
  SmallVector<Value> parts;
  for (Type type : partTypes)
    parts.push_back(body->addArgument(type, program.getLoc()));
  SmallVector<Value> sums;
  for (Type type : sumTypes)
    sums.push_back(body->addArgument(type, program.getLoc()));

  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    if (&op != loop && !isa<ReadOp>(op))
      op.moveBefore(body, body->end());
  for (auto [argument, part] : llvm::zip(slicedArguments, parts))
    argument.replaceUsesWithIf(
        part, [&](OpOperand &use) { return use.getOwner() != loop; });

  // Add each contribution to its sum as soon as the contribution can be read,
  // so that the memory of the contribution can be released there.
  SmallVector<Value> yielded;
  for (auto [contribution, sum, last] :
       llvm::zip_equal(ret->getOperands(), sums, complete)) {
    builder.setInsertionPointToEnd(body);
    if (last && last->getBlock() == body)
      builder.setInsertionPointAfter(last);
    auto total =
        AddOp::create(builder, contribution.getLoc(), sum, contribution);
    setLayer(total, getDefiningLayer(contribution));
    yielded.push_back(total);
  }
  builder.setInsertionPointToEnd(body);
  YieldOp::create(builder, program.getLoc(), yielded);
  ret->setOperands(loop.getResults());
  return success();
}
