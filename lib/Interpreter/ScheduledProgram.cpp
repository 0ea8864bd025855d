//===- ScheduledProgram.cpp - Commands on strided tensors -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The verifiers of the dialect guarantee that views are within their slots. The
// functions below check that slots are within the arena.
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/ScheduledProgram.h"
#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Dialect/Kiln/IR/KilnVendor.h"
#include "kiln/Dialect/Kiln/IR/LaunchArguments.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln::abi;

namespace kiln {

bool SlotTensor::overlaps(const SlotTensor &other) const {
  int64_t width = elementBytes(), otherWidth = other.elementBytes();
  if (slot != other.slot || offset + extent() <= other.offset ||
      other.offset + other.extent() <= offset)
    return false;
  // Disjoint column ranges of one matrix do not overlap, although the byte
  // ranges from their first to their last element do.
  int64_t row = rowStride * width;
  if (row != other.rowStride * otherWidth || row == 0 ||
      microbatchStride != other.microbatchStride)
    return true;
  int64_t from = offset % row, otherFrom = other.offset % row;
  int64_t to = from + getColumnCount(type) * width,
          otherTo = otherFrom + getColumnCount(other.type) * otherWidth;
  return to > row || otherTo > row || (from < otherTo && otherFrom < to);
}

class ScheduledProgramBuilder {
public:
  explicit ScheduledProgramBuilder(rt::ProgramOp op) { program.op = op; }
  FailureOr<ScheduledProgram> run();

private:
  LogicalResult addSlot(rt::SlotOp slot);
  LogicalResult checkRing(rt::SlotOp slot);
  LogicalResult addCommand(Operation &op);
  LogicalResult addLaunch(rt::LaunchOp launch);
  LogicalResult addGemm(rt::GemmOp gemm);
  void addFill(rt::FillOp fill);
  void addCopy(Operation *copy, rt::ViewOp from, rt::ViewOp to,
               ScheduledCommand::Kind kind);
  LogicalResult addTransfer(rt::BeginOp begin);
  LogicalResult addMicrobatches(rt::MicrobatchesOp microbatches);
  template <typename Op>
  void addBoundary(Op op, std::vector<ScheduledProgram::Boundary> &to);
  ScheduledCommand &append(ScheduledCommand::Kind kind, Operation *op) {
    ScheduledCommand &command = program.commands.emplace_back();
    command.kind = kind;
    command.op = op;
    return command;
  }
  SlotTensor tensorAt(rt::ViewOp view) {
    return {slotIndex.lookup(view.getSlot()),
            static_cast<int64_t>(view.getOffset()),
            static_cast<int64_t>(view.getStride()), view.getRowPitch(),
            view.getTensorType()};
  }
  SlotTensor tensorAt(Value place) { return tensorAt(rt::viewOf(place)); }
  /// Returns the bytes of a dense view as a tensor of integers.
  SlotTensor bytesAt(rt::ViewOp view);
  LogicalResult checkView(rt::ViewOp view);
  void bindArguments(rt::LaunchOp launch, rt::KernelOp kernel,
                     ScheduledCommand &command);
  LogicalResult addEpilogue(rt::GemmOp gemm, ScheduledCommand &command);
  LogicalResult addLibraryOperands(rt::GemmOp gemm, ScheduledCommand &command);
  Block *matmulBody(rt::GemmOp gemm, const ScheduledCommand &command);

  ScheduledProgram program;
  DenseMap<Value, unsigned> slotIndex;
  int64_t deviceBytes = 0, hostBytes = 0;
};

/// Returns a tensor type for `bytes` bytes, with elements of 4 bytes if
/// possible. Encoded tensors may have any number of bytes.
static RankedTensorType bytesType(MLIRContext *context, int64_t bytes) {
  int64_t unit = bytes % 4 ? 1 : 4;
  return RankedTensorType::get({bytes / unit},
                               IntegerType::get(context, 8 * unit));
}

LogicalResult ScheduledProgramBuilder::addSlot(rt::SlotOp slot) {
  int64_t offset = slot.getOffset(), bytes = slot.getTotalBytes();
  int64_t arenaBytes =
      slot.getMemory() == MemorySpace::Host ? hostBytes : deviceBytes;
  // An encoded tensor may have any number of bytes, but its offset must be a
  // multiple of 4.
  if (offset < 0 || bytes < 0 || offset % 4 || offset > arenaBytes ||
      bytes > arenaBytes - offset)
    return slot.emitOpError("has the offset ")
           << offset << " and the size " << bytes
           << ", expected an offset that is a multiple of 4, and offset + size "
              "<= "
           << arenaBytes;
  if (slot.getRing() && failed(checkRing(slot)))
    return failure();
  slotIndex[slot.getSlot()] = program.slots.size();
  program.slots.push_back(slot);
  return success();
}

/// Checks a slot with a ring, that is, with several instances. The slot must be
/// live only in the segments of micro-batches, and must have an instance for
/// each micro-batch in flight.
LogicalResult ScheduledProgramBuilder::checkRing(rt::SlotOp slot) {
  std::optional<rt::MicrobatchCommands> &microbatches = program.microbatches;
  int64_t first = slot.getFirst(), last = slot.getLast();
  if (!microbatches || slot.getState() || first < microbatches->forward ||
      last >= microbatches->end)
    return slot.emitOpError("'")
           << slot.getName()
           << "' has a ring, expected none, because the slot is live outside "
              "the segments of micro-batches";
  rt::MicrobatchesOp op = microbatches->op;
  int64_t inFlight = op.getSegmentOrder().slots(op.getCount());
  if (slot.getInstances() < inFlight)
    return slot.emitOpError("'")
           << slot.getName() << "' has a ring of " << slot.getInstances()
           << " instances, expected at least " << inFlight
           << ", one for each micro-batch in flight";
  if (slot.getRingStride() % 4)
    return slot.emitOpError("'")
           << slot.getName() << "' has a ring with a stride of "
           << slot.getRingStride() << " bytes, expected a multiple of 4";
  return success();
}

/// Checks that the offset and the stride of a view are multiples of min(2,
/// bytes per element). The unit of the interpreter's arena is 2 bytes, or 1
/// byte if a view of 1-byte elements is not dense or has an odd offset or
/// stride.
LogicalResult ScheduledProgramBuilder::checkView(rt::ViewOp view) {
  int64_t unit = std::min<int64_t>(2, elementBytes(view.getTensorType()));
  auto isMultipleOf = [&](int64_t bytes) {
    return view.getOffset() % bytes == 0 && view.getStride() % bytes == 0;
  };
  if (!isMultipleOf(unit))
    return view.emitOpError("has the offset ")
           << view.getOffset() << " in slot '" << view.getSlotOp().getName()
           << "' and the stride " << view.getStride()
           << " per micro-batch, expected multiples of " << unit;
  if (unit == 1 && (!isMultipleOf(2) || !view.isDense()))
    program.unit = 1;
  return success();
}

LogicalResult ScheduledProgramBuilder::addLaunch(rt::LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<rt::KernelOp>(
      program.op, launch.getKernelAttr());
  ScheduledCommand &command = append(ScheduledCommand::Kind::Launch, launch);
  for (Value place : launch.getReads())
    command.operands.push_back(tensorAt(place));
  for (Value place : launch.getWrites())
    command.results.push_back(tensorAt(place));
  if (launch.getScratch())
    command.scratch = slotIndex.lookup(launch.getScratch());
  KernelOpInterface op = kernel.getSingleOp();
  if (op && op.accumulatesInPlace()) {
    auto dispatchable = cast<DispatchableOpInterface>(op.getOperation());
    if (int64_t tied = dispatchable.getTiedOperand(0); tied >= 0)
      if (auto sum = dyn_cast<BlockArgument>(op->getOperand(tied)))
        command.accumulated = sum.getArgNumber();
  }
  bindArguments(launch, kernel, command);
  return success();
}

/// Returns the arguments that a launch or a GEMM with an epilogue passes to its
/// kernel.
static SmallVector<Attribute> argumentsOf(ArrayAttr args) {
  return args ? SmallVector<Attribute>(args.getValue())
              : SmallVector<Attribute>();
}

/// Sets the body of the command to the body of the kernel, and binds the
/// arguments of the kernel.
void ScheduledProgramBuilder::bindArguments(rt::LaunchOp launch,
                                            rt::KernelOp kernel,
                                            ScheduledCommand &command) {
  command.body = &kernel.getBody().front();
  SmallVector<Attribute> arguments = argumentsOf(launch.getArgsAttr());
  if (arguments.empty())
    return;
  auto region = std::make_unique<Region>();
  IRMapping mapping;
  kernel.getBody().cloneInto(region.get(), mapping);
  bindLaunchArguments(region->front(), arguments);
  command.body = &region->front();
  program.bodies.push_back(std::move(region));
}

LogicalResult ScheduledProgramBuilder::addGemm(rt::GemmOp gemm) {
  ScheduledCommand &command = append(ScheduledCommand::Kind::Gemm, gemm);
  if (gemm.getScratch())
    command.scratch = slotIndex.lookup(gemm.getScratch());
  for (unsigned i = 0; i < 3; ++i) {
    rt::ViewOp matrix = gemm.getMatrix(i);
    ArrayRef<int64_t> shape = matrix.getMemRefType().getShape();
    if (gemm.getBatch() > 1 &&
        gemm.getBatchStride(i) != shape[1] * gemm.getLead(i))
      return gemm.emitOpError("has padding between the matrices of a batch, "
                              "which the interpreter does not support");
    (i == 2 ? command.results : command.operands).push_back(tensorAt(matrix));
  }
  if (gemm.getAccumulate() != rt::Accumulation::Overwrite) {
    command.operands.push_back(command.results.front());
    command.accumulated = 2;
  }
  if (failed(addLibraryOperands(gemm, command)))
    return failure();
  command.body = matmulBody(gemm, command);
  return gemm.getEpilogue() ? addEpilogue(gemm, command) : success();
}

/// Adds the operands and results of a vendor library's epilogue to `command`.
LogicalResult
ScheduledProgramBuilder::addLibraryOperands(rt::GemmOp gemm,
                                            ScheduledCommand &command) {
  GemmEpilogue epilogue = gemm.getVendorEpilogue();
  auto add = [&](Value place, bool isWritten) -> LogicalResult {
    if (!place)
      return success();
    SlotTensor tensor = tensorAt(place);
    if (tensor.overlaps(command.results.front()))
      return gemm.emitOpError("must not have a result that overlaps the 'bias' "
                              "or 'aux' of its library epilogue");
    if (isWritten &&
        llvm::any_of(command.operands, [&](const SlotTensor &read) {
          return tensor.overlaps(read);
        }))
      return gemm.emitOpError(
          "must not have a library epilogue whose result overlaps an operand "
          "of the gemm");
    (isWritten ? command.results : command.operands).push_back(tensor);
    return success();
  };
  return failure(failed(add(gemm.getBias(), writesBias(epilogue))) ||
                 failed(add(gemm.getAux(), writesAux(epilogue))));
}

/// Appends the epilogue to the body of a GEMM. The GEMM's result stays the last
/// result, unless the epilogue overwrites it.
LogicalResult ScheduledProgramBuilder::addEpilogue(rt::GemmOp gemm,
                                                   ScheduledCommand &command) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<rt::KernelOp>(
      program.op, gemm.getEpilogueAttr());
  Block &epilogue = kernel.getBody().front();
  SlotTensor matmul = command.results.pop_back_val();
  Block &body = *command.body;
  IRMapping mapping;
  mapping.map(epilogue.getArgument(0), body.getTerminator()->getOperand(0));
  for (auto [argument, place] : llvm::zip(epilogue.getArguments().drop_front(),
                                          gemm.getEpilogueReads())) {
    command.operands.push_back(tensorAt(place));
    mapping.map(argument, body.addArgument(argument.getType(), gemm.getLoc()));
  }
  for (Value place : gemm.getEpilogueWrites())
    command.results.push_back(tensorAt(place));
  // The epilogue of a tile may run while other tiles of the matmul are still
  // being computed. The matmul must therefore not overwrite operands of the
  // epilogue, and the epilogue must not overwrite operands of the matmul.
  ArrayRef<SlotTensor> read = command.operands;
  for (const SlotTensor &operand : read.drop_front(2))
    if (operand.overlaps(matmul))
      return gemm.emitOpError("must not write the result of the matmul over an "
                              "operand of the epilogue");
  for (const SlotTensor &operand : read.take_front(2))
    for (const SlotTensor &result : command.results)
      if (operand.overlaps(result))
        return gemm.emitOpError("must not have an epilogue that overwrites an "
                                "operand of the gemm");

  Operation *yield = body.getTerminator();
  OpBuilder builder(yield);
  for (Operation &op : epilogue.without_terminator())
    builder.clone(op, mapping);
  bindLaunchArguments(body, argumentsOf(gemm.getArgsAttr()));
  SmallVector<Value> yielded;
  for (Value value : epilogue.getTerminator()->getOperands())
    yielded.push_back(mapping.lookup(value));
  if (llvm::none_of(command.results, [&](const SlotTensor &result) {
        return result.overlaps(matmul);
      })) {
    yielded.push_back(mapping.lookup(epilogue.getArgument(0)));
    command.results.push_back(matmul);
  }
  yield->setOperands(yielded);
  return success();
}

Block *ScheduledProgramBuilder::matmulBody(rt::GemmOp gemm,
                                           const ScheduledCommand &command) {
  auto region = std::make_unique<Region>();
  Block *block = &region->emplaceBlock();
  SmallVector<Value, 3> values;
  for (const SlotTensor &operand : command.operands)
    values.push_back(block->addArgument(operand.type, gemm.getLoc()));
  SmallVector<Type, 2> types;
  for (const SlotTensor &result : command.results)
    types.push_back(result.type);
  OpBuilder builder(gemm.getContext());
  builder.setInsertionPointToStart(block);
  Location loc = gemm.getLoc();
  Operation *matmul = createGemm(builder, loc, gemm.getVendorEpilogue(), types,
                                 values, gemm.getTransA(), gemm.getTransB());
  YieldOp::create(builder, loc, matmul->getResults());
  program.bodies.push_back(std::move(region));
  return block;
}

SlotTensor ScheduledProgramBuilder::bytesAt(rt::ViewOp view) {
  SlotTensor tensor = tensorAt(view);
  tensor.type = bytesType(view.getContext(), view.getExtent());
  tensor.rowStride = tensor.type.getDimSize(0);
  return tensor;
}

void ScheduledProgramBuilder::addFill(rt::FillOp fill) {
  append(ScheduledCommand::Kind::Fill, fill)
      .results.push_back(bytesAt(rt::viewOf(fill.getTo())));
}

void ScheduledProgramBuilder::addCopy(Operation *copy, rt::ViewOp from,
                                      rt::ViewOp to,
                                      ScheduledCommand::Kind kind) {
  ScheduledCommand &command = append(kind, copy);
  command.operands.push_back(bytesAt(from));
  command.results.push_back(bytesAt(to));
}

LogicalResult ScheduledProgramBuilder::addTransfer(rt::BeginOp begin) {
  switch (begin.getKind()) {
  case rt::TransferKind::Copy:
    addCopy(begin, begin.getFrom(), begin.getTo(),
            ScheduledCommand::Kind::CopyStart);
    return success();
  case rt::TransferKind::AllReduce:
  case rt::TransferKind::ReduceScatter:
  case rt::TransferKind::AllGather: {
    ScheduledCommand &command =
        append(ScheduledCommand::Kind::CollectiveStart, begin);
    command.collective = rt::collectiveOf(begin.getKind());
    for (Value place : begin.getReads())
      command.operands.push_back(tensorAt(place));
    for (Value place : begin.getWrites().take_back(begin.getReads().size()))
      command.results.push_back(tensorAt(place));
    return success();
  }
  case rt::TransferKind::Send:
  case rt::TransferKind::Receive:
    return begin.emitOpError("is a transfer between two ranks, which the "
                             "interpreter does not support");
  }
  llvm_unreachable("unknown kind of transfer");
}

LogicalResult
ScheduledProgramBuilder::addMicrobatches(rt::MicrobatchesOp microbatches) {
  for (Region *segment :
       {&microbatches.getForward(), &microbatches.getBackward()})
    for (Operation &op : segment->front())
      if (failed(addCommand(op)))
        return failure();
  return success();
}

template <typename Op>
void ScheduledProgramBuilder::addBoundary(
    Op op, std::vector<ScheduledProgram::Boundary> &to) {
  to.push_back({op.getName().str(), tensorAt(op.getPlace())});
}

LogicalResult ScheduledProgramBuilder::addCommand(Operation &op) {
  // Calls a function that cannot fail, and returns success.
  auto always = [](auto &&add) {
    add();
    return success();
  };
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](rt::SlotOp op) { return addSlot(op); })
      .Case([&](rt::ViewOp op) { return checkView(op); })
      .Case([&](rt::TokenOp) { return success(); })
      .Case([&](rt::InputOp op) {
        return always([&] { addBoundary(op, program.inputs); });
      })
      .Case([&](rt::OutputOp op) {
        return always([&] { addBoundary(op, program.outputs); });
      })
      .Case([&](rt::LaunchOp op) { return addLaunch(op); })
      .Case([&](rt::GemmOp op) { return addGemm(op); })
      .Case([&](rt::FillOp op) { return always([&] { addFill(op); }); })
      .Case([&](rt::CopyOp op) {
        return always([&] {
          rt::ViewOp from = rt::viewOf(op.getFrom()),
                     to = rt::viewOf(op.getTo());
          if (!op.getAxis())
            return addCopy(op, from, to, ScheduledCommand::Kind::Copy);
          ScheduledCommand &command =
              append(ScheduledCommand::Kind::CopyShard, op);
          command.operands.push_back(tensorAt(from));
          command.results.push_back(tensorAt(to));
        });
      })
      .Case([&](rt::BeginOp op) { return addTransfer(op); })
      .Case([&](rt::WaitOp op) {
        return always([&] { append(ScheduledCommand::Kind::Wait, op); });
      })
      .Case([&](rt::MicrobatchesOp op) { return addMicrobatches(op); })
      .Default([](Operation *op) {
        return op->emitOpError("is not a command of a scheduled program");
      });
}

FailureOr<ScheduledProgram> ScheduledProgramBuilder::run() {
  auto module = program.op->getParentOfType<ModuleOp>();
  auto arenas = module.getOps<rt::ArenaOp>();
  if (arenas.empty())
    return program.op.emitOpError("has no kilnrt.arena in its module");
  deviceBytes = (*arenas.begin()).getHeight();
  hostBytes = (*arenas.begin()).getHostHeight();
  program.hostBegin = llvm::alignTo(deviceBytes, abi::slotAlignment);
  program.microbatches = rt::microbatchesOf(program.op);
  program.executions = rt::executionsOf(program.op);
  for (Operation &op : program.op.getBody().front())
    if (failed(addCommand(op)))
      return failure();
  return std::move(program);
}

FailureOr<ScheduledProgram> ScheduledProgram::build(rt::ProgramOp program) {
  return ScheduledProgramBuilder(program).run();
}

SegmentRun runOf(const rt::SegmentExecution &execution) {
  if (execution.run)
    return *execution.run;
  SegmentRun run;
  run.isFirst = run.isLast = true;
  return run;
}

bool readsAccumulated(const ScheduledCommand &command, const SegmentRun &run) {
  if (command.accumulated < 0)
    return false;
  auto gemm = dyn_cast<rt::GemmOp>(command.op);
  rt::Accumulation accumulate =
      gemm ? gemm.getAccumulate()
           : cast<rt::LaunchOp>(command.op).getAccumulate();
  return accumulate == rt::Accumulation::Add ||
         (accumulate == rt::Accumulation::AddAfterFirst && !run.isFirst);
}

FailureOr<SmallVector<TensorHandle>>
evaluateCommand(const Interpreter &interpreter, const ScheduledCommand &command,
                ArrayRef<TensorHandle> operands) {
  return interpreter.runBlock(*command.body, operands);
}

} // namespace kiln
