//===- KilnRTDialect.cpp - The KilnRT dialect -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "Limits.h"
#include "kiln/Dialect/Kiln/IR/LaunchArguments.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln::rt;
using namespace kiln;

#include "kiln/Dialect/KilnRT/IR/KilnRTDialect.cpp.inc"

#include "kiln/Dialect/KilnRT/IR/KilnRTEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTTypes.cpp.inc"

#include "kiln/Dialect/KilnRT/IR/KilnRTInterfaces.cpp.inc"

//===----------------------------------------------------------------------===//
// Custom assembly formats.
//===----------------------------------------------------------------------===//

static ParseResult parseSlotClassKind(OpAsmParser &parser,
                                      SlotClassAttr &slotClass) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<SlotClass> value = symbolizeSlotClass(keyword);
  if (!value)
    return parser.emitError(loc)
           << "unknown slot class '" << keyword
           << "', expected parameter, optimizer, gradient, activation, "
              "workspace, communication, input, output, constant or "
              "materialized";
  slotClass = SlotClassAttr::get(parser.getContext(), *value);
  return success();
}

static void printSlotClassKind(OpAsmPrinter &printer, Operation *,
                               SlotClassAttr slotClass) {
  printer << stringifySlotClass(slotClass.getValue());
}

/// Parses `in host`, or nothing.
static ParseResult parseInMemory(OpAsmParser &parser, MemorySpaceAttr &memory) {
  auto value = MemorySpace::Device;
  if (succeeded(parser.parseOptionalKeyword("in"))) {
    StringRef keyword;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return failure();
    std::optional<MemorySpace> known = symbolizeMemorySpace(keyword);
    if (!known)
      return parser.emitError(loc)
             << "unknown memory '" << keyword << "', expected device or host";
    value = *known;
  }
  memory = MemorySpaceAttr::get(parser.getContext(), value);
  return success();
}

static void printInMemory(OpAsmPrinter &printer, Operation *,
                          MemorySpaceAttr memory) {
  if (memory.getValue() != MemorySpace::Device)
    printer << " in " << stringifyMemorySpace(memory.getValue());
}

/// Parses `host states N height N`, or nothing.
static ParseResult parseHostArena(OpAsmParser &parser, IntegerAttr &states,
                                  IntegerAttr &height) {
  Builder &builder = parser.getBuilder();
  int64_t stateBytes = 0, heightBytes = 0;
  if (succeeded(parser.parseOptionalKeyword("host")))
    if (parser.parseKeyword("states") || parser.parseInteger(stateBytes) ||
        parser.parseKeyword("height") || parser.parseInteger(heightBytes))
      return failure();
  states = builder.getI64IntegerAttr(stateBytes);
  height = builder.getI64IntegerAttr(heightBytes);
  return success();
}

static void printHostArena(OpAsmPrinter &printer, Operation *,
                           IntegerAttr states, IntegerAttr height) {
  if (states.getInt() != 0 || height.getInt() != 0)
    printer << " host states " << states.getInt() << " height "
            << height.getInt();
}

/// Parses `64`, or `64 + 128 * microbatch`.
static ParseResult parseViewOffset(OpAsmParser &parser, IntegerAttr &offset,
                                   IntegerAttr &stride) {
  Builder &builder = parser.getBuilder();
  int64_t start = 0, step = 0;
  if (parser.parseInteger(start))
    return failure();
  if (succeeded(parser.parseOptionalPlus()))
    if (parser.parseInteger(step) || parser.parseStar() ||
        parser.parseKeyword("microbatch"))
      return failure();
  offset = builder.getI64IntegerAttr(start);
  stride = builder.getI64IntegerAttr(step);
  return success();
}

static void printViewOffset(OpAsmPrinter &printer, Operation *,
                            IntegerAttr offset, IntegerAttr stride) {
  printer << offset.getInt();
  if (stride.getInt() != 0)
    printer << " + " << stride.getInt() << " * microbatch";
}

using Operand = OpAsmParser::UnresolvedOperand;

/// Parses `(ro %a, ro %b, wo %c)`; operands that are read come first.
static ParseResult parseAccesses(OpAsmParser &parser,
                                 SmallVectorImpl<Operand> &reads,
                                 SmallVectorImpl<Operand> &writes) {
  return parser.parseCommaSeparatedList(
      OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
        StringRef keyword;
        SMLoc loc = parser.getCurrentLocation();
        if (parser.parseKeyword(&keyword))
          return failure();
        bool isRead = keyword == stringifyAccess(Access::Read);
        if (!isRead && keyword != stringifyAccess(Access::Write))
          return parser.emitError(loc)
                 << "unknown access '" << keyword << "', expected ro or wo";
        if (isRead && !writes.empty())
          return parser.emitError(loc)
                 << "a read operand (ro) follows a written operand (wo), "
                    "expected all read operands before the written operands";
        return parser.parseOperand((isRead ? reads : writes).emplace_back());
      });
}

static void printAccesses(OpAsmPrinter &printer, Operation *,
                          OperandRange reads, OperandRange writes) {
  printer << '(';
  StringRef separator;
  for (auto [places, access] :
       {std::pair(reads, Access::Read), {writes, Access::Write}})
    for (Value place : places) {
      printer << separator << stringifyAccess(access) << ' ' << place;
      separator = ", ";
    }
  printer << ')';
}

/// Parses `wo %c`, `rw %c`, or `rw %c add_after_first`.
static ParseResult parseResult(OpAsmParser &parser, Operand &place,
                               AccumulationAttr &accumulate) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword) || parser.parseOperand(place))
    return failure();
  auto value = Accumulation::Overwrite;
  if (keyword == stringifyAccess(Access::ReadWrite))
    value = succeeded(parser.parseOptionalKeyword(
                stringifyAccumulation(Accumulation::AddAfterFirst)))
                ? Accumulation::AddAfterFirst
                : Accumulation::Add;
  else if (keyword != stringifyAccess(Access::Write))
    return parser.emitError(loc)
           << "unknown access '" << keyword << "', expected wo or rw";
  accumulate = AccumulationAttr::get(parser.getContext(), value);
  return success();
}

static void printResult(OpAsmPrinter &printer, Operation *, Value place,
                        AccumulationAttr accumulate) {
  bool overwrites = accumulate.getValue() == Accumulation::Overwrite;
  printer << stringifyAccess(overwrites ? Access::Write : Access::ReadWrite)
          << ' ' << place;
  if (accumulate.getValue() == Accumulation::AddAfterFirst)
    printer << ' ' << stringifyAccumulation(accumulate.getValue());
}

#define GET_OP_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTOps.cpp.inc"

void KilnRTDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Dialect/KilnRT/IR/KilnRTAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "kiln/Dialect/KilnRT/IR/KilnRTTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kiln/Dialect/KilnRT/IR/KilnRTOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Arenas, kernels and programs.
//===----------------------------------------------------------------------===//

LogicalResult ArenaOp::verify() {
  for (auto [states, height] : {std::pair(getStates(), getHeight()),
                                std::pair(getHostStates(), getHostHeight())})
    if (height > kMostBytes || states > height) // C1
      return emitOpError("reserves ")
             << static_cast<int64_t>(states)
             << " bytes for states in an arena of "
             << static_cast<int64_t>(height)
             << " bytes, expected an arena of at most " << kMostBytes
             << " bytes that has room for the states";
  return success();
}

/// Verifies that the regions of `parent` have only ops of `dialect`.
static LogicalResult checkOps(Operation *parent, StringRef dialect) {
  for (Region &region : parent->getRegions())
    for (Operation &op : region.front())
      if (op.getName().getDialectNamespace() != dialect) {
        InFlightDiagnostic diagnostic = parent->emitOpError("contains '")
                                        << op.getName()
                                        << "', expected only ops of the "
                                        << dialect << " dialect";
        diagnostic.attachNote(op.getLoc()) << "the op is here";
        return diagnostic;
      }
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  Block &body = getBody().front();
  auto yield = dyn_cast<YieldOp>(body.back());
  if (!yield || !llvm::all_of(body.getArgumentTypes(), isKilnTensor)) // C2
    return emitOpError("must have a body that ends in kiln.yield and whose "
                       "arguments are tensors with static positive extents");
  if (failed(checkOps(*this, KilnDialect::getDialectNamespace())))
    return failure();
  size_t count = body.getNumArguments() + yield.getNumOperands();
  if (getRowStrides().size() != count ||
      llvm::any_of(getRowStrides(), [](int64_t n) { return n < 0; })) // C1
    return emitOpError("has ")
           << getRowStrides().size() << " row strides, expected " << count
           << ", each of them at least 0";
  if (getFamily() == Family::Gemm ||
      (getFamily() == Family::Kernel &&
       (!getSingleOp() || getSingleOp()->getNextNode() != yield ||
        getSingleOp()->getResults() != yield.getOperands()))) // C4
    return emitOpError("of the family '")
           << getKind()
           << "' must have a body that contains one op of this family and "
              "yields exactly the results of that op";
  return verifyLaunchArguments(body); // C3
}

KernelOpInterface KernelOp::getSingleOp() {
  auto op = dyn_cast<KernelOpInterface>(getBody().front().front());
  return getFamily() == Family::Kernel && op &&
                 familyOf(op) == Family::Kernel &&
                 op.getKernelFamily() == getKind()
             ? op
             : KernelOpInterface();
}

SmallVector<Type> KernelOp::getArgumentTypes() {
  return launchArgumentTypes(getBody().front());
}

SmallVector<Value> KernelOp::getParameters() {
  Block &body = getBody().front();
  SmallVector<Value> parameters(body.getArguments());
  llvm::append_range(parameters, body.getTerminator()->getOperands());
  return parameters;
}

/// Verifies that the regions have no block arguments and only ops of this
/// dialect.
static LogicalResult checkCommands(Operation *op) {
  for (Region &region : op->getRegions())
    if (region.front().getNumArguments() != 0)
      return op->emitOpError("has block arguments, expected none");
  return checkOps(op, KilnRTDialect::getDialectNamespace());
}

LogicalResult rt::ProgramOp::verifyRegions() {
  auto microbatches = getBody().front().getOps<rt::MicrobatchesOp>();
  if (llvm::range_size(microbatches) > 1) // C2
    return emitOpError("has ") << llvm::range_size(microbatches)
                               << " kilnrt.microbatches, expected at most one";
  return checkCommands(*this); // C1
}

SegmentOrder rt::MicrobatchesOp::getSegmentOrder() {
  OrderAttr order = getOrderAttr();
  return order ? order.getSegmentOrder() : SegmentOrder();
}

LogicalResult rt::MicrobatchesOp::verifyRegions() {
  auto count = static_cast<int64_t>(getCount()),
       slots = static_cast<int64_t>(getSlots());
  SegmentOrder order = getSegmentOrder();
  if (auto status = order.check(count); !status.ok()) // C1
    return emitOpError("cannot be executed: ") << status.message();
  if (slots > count)
    return emitOpError("has rings of ")
           << slots << " slots, expected at most " << count
           << ", the number of micro-batches";
  if (slots < order.slots(count)) { // C2
    std::vector<SegmentRun> runs = order.runs(count);
    auto first = llvm::find_if(
        runs, [&](const SegmentRun &run) { return run.slot >= slots; });
    return emitOpError("has rings of ")
           << slots << (slots == 1 ? " slot" : " slots")
           << ", expected at least " << order.slots(count)
           << ", the maximum number of micro-batches in flight; segment "
           << first->name()
           << " is the first in execution order that has no slot";
  }
  return checkCommands(*this); // C3
}

//===----------------------------------------------------------------------===//
// Inputs and outputs.
//===----------------------------------------------------------------------===//

ViewOp InputOp::getView() { return viewOf(getPlace()); }
ViewOp OutputOp::getView() { return viewOf(getPlace()); }
RankedTensorType InputOp::getTensorType() { return getView().getTensorType(); }
RankedTensorType OutputOp::getTensorType() { return getView().getTensorType(); }

/// Verifies constraint C1 of inputs and outputs: their memory is dense and in
/// the device arena, because the caller of the program accesses it.
template <typename Boundary> static LogicalResult verifyBoundary(Boundary op) {
  ViewOp view = op.getView();
  SlotOp slot = view && view.isWellFormed() ? view.getSlotOp() : SlotOp();
  if (slot && slot.getMemory() == MemorySpace::Device && view.isDense())
    return success();
  return op.emitOpError("'")
         << op.getName()
         << "' must have a view of a slot in device memory, "
            "and the rows of the view must be contiguous";
}

InputAttr InputOp::getInputFact() {
  InputAttr declared = getFactAttr();
  return declared ? declared : inputFactOfName(getName(), getContext());
}

LogicalResult InputOp::verify() {
  if (failed(verifyBoundary(*this)))
    return failure();
  InputAttr declared = getFactAttr();
  if (declared && (declared.getRole() != InputRole::Data ||
                   declared.getBatchDim().value_or(0) != 0)) // C2
    return emitOpError("'") << getName() << "' is declared as " << declared
                            << ", expected #kiln.input<data> or "
                               "#kiln.input<data, batch_dim = 0>";
  if (declared && declared.getBatchDim() &&
      getTensorType().getRank() == 0) // C2
    return emitOpError("'")
           << getName()
           << "' is declared with batch_dim = 0, but is a scalar, which has no "
              "dimensions";
  return success();
}

LogicalResult OutputOp::verify() { return verifyBoundary(*this); }
