//===- ScheduledProgram.cpp - Commands as strided tensors -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks every reference against the slots while it reads the IR: the arena
// machine relies on offsets, strides and sizes that fit.
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/ScheduledProgram.h"
#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Dialect/Kiln/IR/KilnLibrary.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln::abi;

namespace kiln {

bool SlotTensor::overlaps(const SlotTensor &other) const {
  int64_t width = elementBytes(), otherWidth = other.elementBytes();
  if (slot != other.slot || offset + extent() <= other.offset ||
      other.offset + other.extent() <= offset)
    return false;
  // Columns of one matrix lie side by side.
  int64_t row = rowStride * width;
  if (row != other.rowStride * otherWidth || row == 0 ||
      loopStride != other.loopStride)
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
  LogicalResult addCommand(Operation &op, int64_t iterations);
  LogicalResult addLaunch(rt::LaunchOp launch);
  LogicalResult addGemm(rt::GemmOp gemm);
  LogicalResult addFill(rt::FillOp fill);
  template <typename Op>
  LogicalResult addCopy(Op copy, ScheduledCommand::Kind kind);
  LogicalResult addLoop(rt::LoopOp loop);
  template <typename Op>
  LogicalResult addBoundary(Op op, std::vector<ScheduledProgram::Boundary> &to);
  ScheduledCommand &append(ScheduledCommand::Kind kind, Operation *op) {
    ScheduledCommand &command = program.commands.emplace_back();
    command.kind = kind;
    command.op = op;
    return command;
  }
  SlotTensor tensorAt(Value slot, int64_t offset, int64_t loopStride,
                      int64_t rowStride, RankedTensorType type) {
    return {slotIndex.lookup(slot), offset, loopStride, rowStride, type};
  }
  LogicalResult checkBounds(Operation *op, const SlotTensor &tensor);
  LogicalResult bindImmediates(rt::LaunchOp launch, rt::KernelOp kernel,
                               ScheduledCommand &command);
  LogicalResult addEpilogue(rt::GemmOp gemm, ScheduledCommand &command);
  LogicalResult addBesideProduct(rt::GemmOp gemm, ScheduledCommand &command);
  Block *matmulBody(rt::GemmOp gemm, const ScheduledCommand &command);

  ScheduledProgram program;
  DenseMap<Value, unsigned> slotIndex;
  int64_t deviceBytes = 0, hostBytes = 0;
  int64_t iterations = 1; ///< Of the loop around the op being read.
};

/// Bytes as a tensor of units, which may be single bytes: codes end anywhere.
static RankedTensorType bytesType(MLIRContext *context, int64_t bytes) {
  int64_t unit = bytes % 4 ? 1 : 4;
  return RankedTensorType::get({bytes / unit},
                               IntegerType::get(context, 8 * unit));
}

LogicalResult ScheduledProgramBuilder::addSlot(rt::SlotOp slot) {
  int64_t offset = slot.getOffset(), bytes = slot.getBytes();
  int64_t arenaBytes = slot.getHost() ? hostBytes : deviceBytes;
  // Codes may end anywhere; what follows begins at a multiple again.
  if (offset < 0 || bytes < 0 || offset % 4 || offset > arenaBytes ||
      bytes > arenaBytes - offset)
    return slot.emitOpError("has bytes [")
           << offset << ", +" << bytes
           << "), expected an offset that 4 divides inside the arena of "
           << arenaBytes;
  slotIndex[slot.getSlot()] = program.slots.size();
  program.slots.push_back(slot);
  return success();
}

/// First and last byte of the tensor in any iteration must lie in the slot.
LogicalResult ScheduledProgramBuilder::checkBounds(Operation *op,
                                                   const SlotTensor &tensor) {
  rt::SlotOp slot = program.slots[tensor.slot];
  int64_t bytes = slot.getBytes(), rows = getRowCount(tensor.type);
  bool sane = tensor.offset >= 0 && tensor.offset <= bytes &&
              tensor.loopStride >= 0 && tensor.rowStride >= 0 &&
              tensor.offset % arenaUnit == 0 &&
              tensor.loopStride % arenaUnit == 0;
  bool overflows =
      !sane ||
      (iterations > 1 && tensor.loopStride > bytes / (iterations - 1)) ||
      (rows > 1 && tensor.rowStride > bytes / (rows - 1));
  int64_t end = overflows
                    ? 0
                    : tensor.offset + tensor.loopStride * (iterations - 1) +
                          tensor.extent();
  if (sane && !overflows && end <= bytes)
    return success();
  return op->emitOpError("reaches outside of slot '")
         << slot.getName() << "' of " << slot.getBytes() << " bytes: offset "
         << tensor.offset << ", stride " << tensor.loopStride
         << " per iteration, " << tensor.rowStride << " elements per row, type "
         << tensor.type;
}

LogicalResult ScheduledProgramBuilder::addLaunch(rt::LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<rt::KernelOp>(
      program.op, launch.getKernelAttr());
  Block &block = kernel.getBody().front();
  ScheduledCommand &command = append(ScheduledCommand::Kind::Launch, launch);
  SmallVector<Value> values(block.getArguments());
  unsigned operands = values.size();
  llvm::append_range(values, block.getTerminator()->getOperands());
  for (auto [i, value] : llvm::enumerate(values)) {
    auto &list = i < operands ? command.operands : command.results;
    list.push_back(tensorAt(launch.getSlots()[i], launch.getOffsets()[i],
                            launch.getStrides()[i], kernel.getRowStrides()[i],
                            tensorTypeOf(value)));
    if (failed(checkBounds(launch, list.back())))
      return failure();
  }
  if (launch.getScratch())
    command.scratch = slotIndex.lookup(launch.getScratch());
  if (kernel.getFamily() == Family::Scatter)
    if (auto scatter = dyn_cast<EmbeddingGradOp>(block.front()))
      if (auto sum =
              dyn_cast_if_present<BlockArgument>(scatter.getAccumulate()))
        command.accumulated = sum.getArgNumber();
  return bindImmediates(launch, kernel, command);
}

/// How many immediates the ops of a row kernel take: their keys are places
/// among them.
static FailureOr<size_t> countKeys(rt::KernelOp kernel) {
  size_t count = 0;
  for (Operation &op : kernel.getBody().front())
    if (auto key = op.getAttrOfType<IntegerAttr>("key")) {
      if (key.getInt() < 0 || key.getInt() >= 64)
        return op.emitOpError("has no place of an immediate as its key");
      count = std::max<size_t>(count, key.getInt() + 1);
    }
  return count;
}

/// Gives the command the kernel's body, with immediates in place of RNG keys
/// and attention's scale.
LogicalResult ScheduledProgramBuilder::bindImmediates(
    rt::LaunchOp launch, rt::KernelOp kernel, ScheduledCommand &command) {
  ArrayRef<int64_t> immediates = launch.getImmediates();
  bool attention = kernel.getFamily() == Family::Attention;
  size_t expected = attention ? 2 : 0;
  if (kernel.getFamily() == Family::Scatter)
    expected = 1;
  if (kernel.getFamily() == Family::Row ||
      kernel.getFamily() == Family::Sketch) {
    auto keys = countKeys(kernel);
    if (failed(keys))
      return failure();
    expected = *keys;
  }
  if (immediates.size() != expected)
    return launch.emitOpError("passes ")
           << immediates.size() << " immediates, expected " << expected;
  command.body = &kernel.getBody().front();
  if (immediates.empty() || kernel.getFamily() == Family::Scatter)
    return success();
  auto region = std::make_unique<Region>();
  IRMapping mapping;
  kernel.getBody().cloneInto(region.get(), mapping);
  Builder builder(launch.getContext());
  for (Operation &op : region->front()) {
    if (auto key = op.getAttrOfType<IntegerAttr>("key"))
      op.setAttr("key", builder.getI64IntegerAttr(
                            immediates[attention ? 0 : key.getInt()]));
    if (attention && op.hasAttr("scale"))
      op.setAttr("scale", builder.getF64FloatAttr(
                              llvm::bit_cast<double>(immediates[1])));
  }
  command.body = &region->front();
  program.bodies.push_back(std::move(region));
  return success();
}

LogicalResult ScheduledProgramBuilder::addGemm(rt::GemmOp gemm) {
  int64_t m = gemm.getM(), n = gemm.getN(), k = gemm.getK();
  int64_t batch = gemm.getBatch(), beta = gemm.getBeta();
  ScheduledCommand &command = append(ScheduledCommand::Kind::Gemm, gemm);
  if (gemm.getScratch())
    command.scratch = slotIndex.lookup(gemm.getScratch());
  auto add = [&](unsigned i, Value slot, int64_t rows, int64_t columns,
                 SmallVectorImpl<SlotTensor> &list) -> LogicalResult {
    Type element = i == 2 ? gemm.getResultElement() : gemm.getElement();
    SmallVector<int64_t> shape = {rows, columns};
    if (batch > 1) {
      shape.insert(shape.begin(), batch);
      if (gemm.getBatchStrides()[i] != rows * gemm.getLead()[i])
        return gemm.emitOpError("has gaps between the matrices of a batch");
    }
    list.push_back(tensorAt(slot, gemm.getOffsets()[i], gemm.getStrides()[i],
                            gemm.getLead()[i],
                            RankedTensorType::get(shape, element)));
    return checkBounds(gemm, list.back());
  };
  bool transA = gemm.getTransA(), transB = gemm.getTransB();
  if (failed(add(0, gemm.getA(), transA ? k : m, transA ? m : k,
                 command.operands)) ||
      failed(add(1, gemm.getB(), transB ? n : k, transB ? k : n,
                 command.operands)) ||
      failed(add(2, gemm.getC(), m, n, command.results)))
    return failure();
  if (beta != 0) {
    command.operands.push_back(command.results.front());
    command.accumulated = 2;
  }
  if (failed(addBesideProduct(gemm, command)))
    return failure();
  command.body = matmulBody(gemm, command);
  return gemm.getEpilogue() ? addEpilogue(gemm, command) : success();
}

/// What the library of a gpu reads and writes beside the product.
LogicalResult
ScheduledProgramBuilder::addBesideProduct(rt::GemmOp gemm,
                                          ScheduledCommand &command) {
  GemmEpilogue epilogue = gemm.getLibraryEpilogue();
  Type element = gemm.getResultElement();
  int64_t m = gemm.getM(), n = gemm.getN();
  int64_t length = biasLength(epilogue, m, n);
  unsigned place = 3;
  auto add = [&](Value slot, RankedTensorType type, bool isWritten) {
    if (!slot)
      return success();
    SlotTensor tensor =
        tensorAt(slot, gemm.getOffsets()[place], gemm.getStrides()[place],
                 type.getShape().back(), type);
    ++place;
    if (failed(checkBounds(gemm, tensor)))
      return failure();
    if (tensor.overlaps(command.results.front()))
      return LogicalResult(
          gemm.emitOpError("writes its result over what its library epilogue "
                           "reads or writes"));
    if (isWritten &&
        llvm::any_of(command.operands, [&](const SlotTensor &read) {
          return tensor.overlaps(read);
        }))
      return LogicalResult(gemm.emitOpError(
          "writes what its library epilogue makes over an operand"));
    (isWritten ? command.results : command.operands).push_back(tensor);
    return success();
  };
  return failure(
      failed(add(gemm.getBias(), RankedTensorType::get({length}, element),
                 writesBias(epilogue))) ||
      failed(add(gemm.getAux(), RankedTensorType::get({m, n}, element),
                 writesAux(epilogue))));
}

/// Appends the epilogue to the body of a product. The product stays a result,
/// the last, unless the epilogue writes over it.
LogicalResult ScheduledProgramBuilder::addEpilogue(rt::GemmOp gemm,
                                                   ScheduledCommand &command) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<rt::KernelOp>(
      program.op, gemm.getEpilogueAttr());
  Block &epilogue = kernel.getBody().front();
  SmallVector<Value> values(epilogue.getArguments());
  unsigned operands = values.size();
  llvm::append_range(values, epilogue.getTerminator()->getOperands());
  if (kernel.getRowStrides().front() != gemm.getLead()[2])
    return kernel.emitOpError("has other row strides than its product");
  auto keys = countKeys(kernel);
  if (failed(keys))
    return failure();
  ArrayRef<int64_t> immediates =
      gemm.getImmediates().value_or(ArrayRef<int64_t>());
  if (immediates.size() != *keys)
    return gemm.emitOpError("passes ")
           << immediates.size() << " immediates, expected " << *keys;

  SlotTensor product = command.results.pop_back_val();
  Block &body = *command.body;
  IRMapping mapping;
  mapping.map(epilogue.getArgument(0), body.getTerminator()->getOperand(0));
  for (auto [i, slot] : llvm::enumerate(gemm.getEpilogueSlots())) {
    bool isOperand = i + 1 < operands;
    auto &list = isOperand ? command.operands : command.results;
    list.push_back(
        tensorAt(slot, gemm.getOffsets()[3 + i], gemm.getStrides()[3 + i],
                 kernel.getRowStrides()[1 + i], tensorTypeOf(values[1 + i])));
    if (failed(checkBounds(gemm, list.back())))
      return failure();
    if (isOperand)
      mapping.map(values[1 + i],
                  body.addArgument(values[1 + i].getType(), gemm.getLoc()));
  }
  // A tile of the product is complete before its epilogue begins, and other
  // tiles are not.
  ArrayRef<SlotTensor> read = command.operands;
  for (const SlotTensor &operand : read.drop_front(2))
    if (operand.overlaps(product))
      return gemm.emitOpError(
          "writes its product over what the epilogue reads");
  for (const SlotTensor &operand : read.take_front(2))
    for (const SlotTensor &result : command.results)
      if (operand.overlaps(result))
        return gemm.emitOpError(
            "has an epilogue that writes over an operand of "
            "the product");

  Operation *yield = body.getTerminator();
  OpBuilder builder(yield);
  for (Operation &op : epilogue.without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    if (auto key = op.getAttrOfType<IntegerAttr>("key"))
      copy->setAttr("key", builder.getI64IntegerAttr(immediates[key.getInt()]));
  }
  SmallVector<Value> yielded;
  for (Value value : epilogue.getTerminator()->getOperands())
    yielded.push_back(mapping.lookup(value));
  if (llvm::none_of(command.results, [&](const SlotTensor &result) {
        return result.overlaps(product);
      })) {
    yielded.push_back(mapping.lookup(epilogue.getArgument(0)));
    command.results.push_back(product);
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
  Value last = values.size() > 2 ? values[2] : Value();
  Location loc = gemm.getLoc();
  bool transA = gemm.getTransA(), transB = gemm.getTransB();
  Operation *product;
  switch (GemmEpilogue epilogue = gemm.getLibraryEpilogue()) {
  case GemmEpilogue::None:
    product = MatmulOp::create(builder, loc, types[0], values[0], values[1],
                               last, transA, transB, DenseI64ArrayAttr());
    break;
  case GemmEpilogue::Bias:
    product = LinearOp::create(builder, loc, types[0], values[0], values[1],
                               last, transA, transB, DenseI64ArrayAttr());
    break;
  case GemmEpilogue::GeluBias:
  case GemmEpilogue::GeluAuxBias:
    product = LinearGeluOp::create(
        builder, loc, types[0], types.size() > 1 ? types[1] : Type(), values[0],
        values[1], last, transA, transB, DenseI64ArrayAttr());
    break;
  case GemmEpilogue::GeluGrad:
    product =
        MatmulGeluGradOp::create(builder, loc, types[0], values[0], values[1],
                                 last, transA, transB, DenseI64ArrayAttr());
    break;
  case GemmEpilogue::BiasGradA:
  case GemmEpilogue::BiasGradB:
    product = MatmulBiasGradOp::create(
        builder, loc, types[0], types[1], values[0], values[1], transA, transB,
        epilogue == GemmEpilogue::BiasGradA, DenseI64ArrayAttr());
    break;
  }
  YieldOp::create(builder, loc, product->getResults());
  program.bodies.push_back(std::move(region));
  return block;
}

LogicalResult ScheduledProgramBuilder::addFill(rt::FillOp fill) {
  ScheduledCommand &command = append(ScheduledCommand::Kind::Fill, fill);
  int64_t bytes = fill.getBytes();
  if (bytes < 0)
    return fill.emitOpError("has ") << bytes << " bytes";
  RankedTensorType type = bytesType(fill.getContext(), bytes);
  command.results.push_back(
      tensorAt(fill.getSlot(), fill.getOffset(), 0, type.getDimSize(0), type));
  return checkBounds(fill, command.results.back());
}

template <typename Op>
LogicalResult ScheduledProgramBuilder::addCopy(Op copy,
                                               ScheduledCommand::Kind kind) {
  ScheduledCommand &command = append(kind, copy);
  int64_t bytes = copy.getBytes();
  if (bytes < 0)
    return copy.emitOpError("has ") << bytes << " bytes";
  RankedTensorType type = bytesType(copy.getContext(), bytes);
  command.operands.push_back(tensorAt(copy.getFrom(), copy.getOffsets()[0],
                                      copy.getStrides()[0], type.getDimSize(0),
                                      type));
  command.results.push_back(tensorAt(copy.getTo(), copy.getOffsets()[1],
                                     copy.getStrides()[1], type.getDimSize(0),
                                     type));
  return failure(failed(checkBounds(copy, command.operands.back())) ||
                 failed(checkBounds(copy, command.results.back())));
}

LogicalResult ScheduledProgramBuilder::addLoop(rt::LoopOp loop) {
  int64_t count = loop.getCount();
  append(ScheduledCommand::Kind::LoopBegin, loop).count = count;
  for (Operation &op : loop.getBody().front())
    if (failed(addCommand(op, count)))
      return failure();
  append(ScheduledCommand::Kind::LoopEnd, loop);
  return success();
}

template <typename Op>
LogicalResult ScheduledProgramBuilder::addBoundary(
    Op op, std::vector<ScheduledProgram::Boundary> &to) {
  auto type = cast<RankedTensorType>(op.getType());
  to.push_back({op.getName().str(), tensorAt(op.getSlot(), op.getOffset(), 0,
                                             getColumnCount(type), type)});
  return checkBounds(op, to.back().tensor);
}

LogicalResult ScheduledProgramBuilder::addCommand(Operation &op,
                                                  int64_t iterationsAround) {
  iterations = iterationsAround;
  LogicalResult result =
      TypeSwitch<Operation *, LogicalResult>(&op)
          .Case([&](rt::SlotOp op) { return addSlot(op); })
          .Case([&](rt::InputOp op) { return addBoundary(op, program.inputs); })
          .Case(
              [&](rt::OutputOp op) { return addBoundary(op, program.outputs); })
          .Case([&](rt::LaunchOp op) { return addLaunch(op); })
          .Case([&](rt::GemmOp op) { return addGemm(op); })
          .Case([&](rt::FillOp op) { return addFill(op); })
          .Case([&](rt::CopyOp op) {
            return addCopy(op, ScheduledCommand::Kind::Copy);
          })
          .Case([&](rt::CopyStartOp op) {
            return addCopy(op, ScheduledCommand::Kind::CopyStart);
          })
          .Case([&](rt::WaitOp op) {
            append(ScheduledCommand::Kind::Wait, op);
            return success();
          })
          .Case([&](rt::LoopOp op) { return addLoop(op); })
          .Default([](Operation *op) {
            return op->emitOpError("is no command of a scheduled program");
          });
  iterations = 1;
  return result;
}

FailureOr<ScheduledProgram> ScheduledProgramBuilder::run() {
  auto module = program.op->getParentOfType<ModuleOp>();
  auto arenas = module.getOps<rt::ArenaOp>();
  if (arenas.empty())
    return program.op.emitOpError("has no kilnrt.arena beside it");
  deviceBytes = (*arenas.begin()).getHeight();
  hostBytes = (*arenas.begin()).getHostHeight();
  program.hostBegin = llvm::alignTo(deviceBytes, abi::slotAlignment);
  for (Operation &op : program.op.getBody().front())
    if (failed(addCommand(op, 1)))
      return failure();
  return std::move(program);
}

FailureOr<ScheduledProgram> ScheduledProgram::build(rt::ProgramOp program) {
  return ScheduledProgramBuilder(program).run();
}

bool readsAccumulated(const ScheduledCommand &command, int64_t iteration) {
  if (command.accumulated < 0)
    return false;
  if (auto gemm = dyn_cast<rt::GemmOp>(command.op))
    return gemm.getBeta() == 1 || iteration > 0;
  auto launch = cast<rt::LaunchOp>(command.op);
  return launch.getImmediates().front() +
             (launch.getAccumulates() ? iteration : 0) !=
         0;
}

FailureOr<SmallVector<TensorHandle>>
evaluateCommand(const Interpreter &interpreter, const ScheduledCommand &command,
                ArrayRef<TensorHandle> operands) {
  return interpreter.runBlock(*command.body, operands);
}

} // namespace kiln
