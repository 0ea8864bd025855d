//===- Microbatches.cpp - Segments of micro-batches -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements kiln.microbatches and the order of its forward and backward
// segments. Labels such as C1 name the constraints in the description of the
// op.
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::abi;
using namespace kiln::checks;

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

LogicalResult OrderAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringRef text) {
  auto order = SegmentOrder::parse(text);
  if (!order.ok())
    return emitError() << order.status().message();
  return success();
}

SegmentOrder OrderAttr::getSegmentOrder() {
  return *SegmentOrder::parse(getText());
}

SegmentOrder MicrobatchesOp::getSegmentOrder() {
  OrderAttr order = getOrderAttr();
  return order ? order.getSegmentOrder() : SegmentOrder();
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

OperandRange MicrobatchesOp::getResiduals() {
  Operation *yield = getSegments().front().front().getTerminator();
  OperandRange yielded = yield->getOperands();
  return isDivided() ? yielded : yielded.take_front(0);
}

Block::BlockArgListType MicrobatchesOp::getResidualArguments() {
  return getBackward().getArguments().slice(getSliced().size(),
                                            getResiduals().size());
}

Block::BlockArgListType MicrobatchesOp::getSumArguments() {
  return getBackward().getArguments().take_back(getNumResults());
}

/// Returns the kiln.microbatches that has `block` as its forward segment, or
/// null.
static MicrobatchesOp forwardSegmentOf(Block *block) {
  auto op = dyn_cast_or_null<MicrobatchesOp>(block->getParentOp());
  return op && op.isDivided() && block == &op.getForward() ? op
                                                           : MicrobatchesOp();
}

LogicalResult kiln::requireUndivided(Operation *op) {
  if (cast<MicrobatchesOp>(op).isDivided())
    return op->emitOpError("is already divided into segments; run this pass "
                           "before kiln-divide-microbatches");
  return success();
}

Block *kiln::backwardSegmentOf(Block &forward) {
  MicrobatchesOp op = forwardSegmentOf(&forward);
  return op ? &op.getBackward() : nullptr;
}

Value kiln::yieldedResidual(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return value;
  auto op =
      dyn_cast_or_null<MicrobatchesOp>(argument.getOwner()->getParentOp());
  if (!op || !op.isDivided() || argument.getOwner() != &op.getBackward())
    return value;
  size_t first = op.getSliced().size(), number = argument.getArgNumber();
  if (number < first || number - first >= op.getResiduals().size())
    return value;
  return op.getResiduals()[number - first];
}

BlockArgument kiln::residualArgumentOf(OpOperand &use) {
  auto yield = dyn_cast<YieldOp>(use.getOwner());
  MicrobatchesOp op =
      yield ? forwardSegmentOf(yield->getBlock()) : MicrobatchesOp();
  if (!op)
    return {};
  // The number of arguments may not have been verified yet, so check that the
  // argument exists.
  Block::BlockArgListType arguments = op.getBackward().getArguments();
  size_t number = op.getSliced().size() + use.getOperandNumber();
  return number < arguments.size() ? arguments[number] : BlockArgument();
}

void kiln::forEachUse(Value value, function_ref<void(OpOperand &)> visit) {
  for (OpOperand &use : value.getUses()) {
    if (BlockArgument argument = residualArgumentOf(use))
      forEachUse(argument, visit);
    else
      visit(use);
  }
}

LogicalResult MicrobatchesOp::verifyRegions() {
  auto count = static_cast<int64_t>(getCount());
  if (failed(checkOnlyKilnOps(*this)))
    return failure();
  if (getSegments().empty() || getSegments().size() > 2)
    return emitOpError("has ")
           << getSegments().size() << " regions, expected one or two";
  if (auto status = getSegmentOrder().check(count); !status.ok()) // C2
    return emitOpError("cannot be executed: ") << status.message();
  SmallVector<Type> parts;
  for (auto [i, value] : llvm::enumerate(getSliced())) {
    SmallVector<int64_t> shape(tensorTypeOf(value).getShape());
    if (shape.empty() || shape[0] % count)
      return emitOpError("operand ")
             << i << " of shape " << toString(shape)
             << " cannot be split along dimension 0 into " << count
             << " equal parts";
    shape[0] /= count;
    parts.push_back(tensorTypeOf(value).clone(shape));
  }
  for (Region &region : getSegments()) {
    StringRef name = !isDivided()                        ? "body"
                     : &region == &getSegments().front() ? "forward segment"
                                                         : "backward segment";
    Block &block = region.front();
    auto yield = dyn_cast<YieldOp>(block.getTerminator());
    if (!yield)
      return emitOpError() << name << " does not end in kiln.yield";
    SmallVector<Type> expected(parts); // C1
    if (&block == &getBackward()) {
      llvm::append_range(expected, getResiduals().getTypes());
      llvm::append_range(expected, getResultTypes());
      if (yield.getValues().getTypes() != getResultTypes())
        return emitOpError()
               << name
               << " yields values whose number or types differ from those of "
                  "the results";
    }
    if (block.getNumArguments() != expected.size()) {
      InFlightDiagnostic diagnostic =
          emitOpError() << name << " has " << block.getNumArguments()
                        << " arguments, expected " << expected.size()
                        << ": one per operand";
      if (&block == &getBackward())
        diagnostic << (isDivided() ? ", per residual and per sum"
                                   : " and per sum");
      return diagnostic;
    }
    for (auto [i, type] : llvm::enumerate(expected))
      if (block.getArgument(i).getType() != type)
        return emitOpError()
               << name << " argument " << i << " has type "
               << block.getArgument(i).getType() << ", expected " << type;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Assembly
//===----------------------------------------------------------------------===//

ParseResult
kiln::parseSegments(OpAsmParser &parser,
                    SmallVectorImpl<std::unique_ptr<Region>> &segments) {
  auto parse = [&] {
    segments.push_back(std::make_unique<Region>());
    return parser.parseRegion(*segments.back());
  };
  if (failed(parser.parseOptionalKeyword("forward")))
    return parse();
  return failure(parse() || parser.parseKeyword("backward") || parse());
}

void kiln::printSegments(OpAsmPrinter &printer, Operation *,
                         MutableArrayRef<Region> segments) {
  if (segments.size() == 1)
    return printer.printRegion(segments.front());
  printer << "forward ";
  printer.printRegion(segments.front());
  printer << " backward ";
  printer.printRegion(segments.back());
}
