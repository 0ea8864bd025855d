//===- Schedule.cpp - From dispatched to scheduled --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Conversion/KilnToKilnRT/Passes.h"

#include "KernelTable.h"
#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Conversion/KilnToKilnRT/BufferPlan.h"

#include "kiln/Abi/GemmWorkspace.h"
#include "kiln/Dialect/Kiln/IR/KilnLibrary.h"
#include "kiln/Dialect/Kiln/IR/Target.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Planner/Arena.h"
#include "kiln/Target/Common/AttentionLibrary.h"
#include "kiln/Target/Cpu/EmitKernel.h"

#include "llvm/Support/MathExtras.h"

namespace kiln {
#define GEN_PASS_DEF_SCHEDULE
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "kiln/Conversion/KilnToKilnRT/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

static LogicalResult verifySchedules(ModuleOp module) {
  for (rt::ProgramOp program : module.getOps<rt::ProgramOp>())
    if (failed(rt::verifySchedule(program)))
      return failure();
  return success();
}

namespace {

class Scheduler {
public:
  Scheduler(ModuleOp module, int64_t maxThreads)
      : module(module), maxThreads(maxThreads), kernels(module),
        builder(module.getContext()) {}
  LogicalResult run();

private:
  void placeStates();
  int64_t assignArena(ProgramPlan &plan, bool host);
  void emit(ProgramPlan &plan);
  void emitCommands(ProgramPlan &plan);
  void emitLaunch(const Command &command);
  void emitGemm(const Command &command);
  void emitLibraryProduct(const Command &command,
                          LibraryProductOpInterface product);
  Value slotOf(const Place &place) { return slots[place.buffer]; }

  ModuleOp module;
  int64_t maxThreads;
  KernelTable kernels;
  OpBuilder builder;
  SmallVector<StateOp> states;
  SmallVector<int64_t> stateOffsets;
  int64_t stateBytes[2] = {0, 0}; ///< of the device, of the host
  SmallVector<Value> slots;       ///< of the program being emitted, by buffer
  DenseMap<Operation *, rt::CopyStartOp>
      copies; ///< by kiln.copy_out or copy_in
};

} // namespace

void Scheduler::placeStates() {
  for (StateOp state : module.getOps<StateOp>()) {
    int64_t &bytes = stateBytes[state.getHost()];
    states.push_back(state);
    stateOffsets.push_back(bytes);
    bytes += llvm::alignTo(bytesOf(state.getType()), abi::slotAlignment);
  }
}

/// Offsets of everything in one memory; returns the program's height there.
int64_t Scheduler::assignArena(ProgramPlan &plan, bool host) {
  std::vector<ArenaBuffer> requests;
  std::vector<Buffer *> buffers;
  for (auto [i, buffer] : llvm::enumerate(plan.buffers)) {
    if (buffer.host != host)
      continue;
    if (i < states.size()) {
      buffer.offset = stateOffsets[i];
      continue;
    }
    ArenaBuffer request;
    request.size = buffer.bytes;
    request.alignment = abi::slotAlignment;
    // A buffer that nothing touches still has a place.
    if (buffer.last < 0)
      buffer.first = buffer.last = 0;
    request.lower = static_cast<int32_t>(buffer.first);
    request.upper = static_cast<int32_t>(buffer.last) + 1;
    requests.push_back(request);
    buffers.push_back(&buffer);
  }
  ArenaPlan arena = assignOffsets(requests, ArenaOptions());
  for (auto [buffer, offset] : llvm::zip(buffers, arena.offsets))
    buffer->offset = stateBytes[host] + offset;
  return stateBytes[host] + arena.height;
}

void Scheduler::emitLaunch(const Command &command) {
  auto dispatch = cast<DispatchOp>(command.op);
  SmallVector<int64_t> rowStrides, offsets, strides;
  SmallVector<Value> operands;
  for (const Place &place : command.places) {
    rowStrides.push_back(place.rowStride);
    offsets.push_back(place.offset);
    strides.push_back(place.loopStride);
    operands.push_back(slotOf(place));
  }
  rt::KernelOp kernel = kernels.get(dispatch, rowStrides);
  SmallVector<int64_t> immediates = KernelTable::immediatesOf(dispatch);
  if (dispatch.getFamily() == Family::Scatter)
    immediates = {command.beta == 1 ? 1 : 0};
  rt::LaunchOp::create(builder, dispatch.getLoc(), kernel.getSymName(),
                       operands,
                       command.scratch >= 0 ? slots[command.scratch] : Value(),
                       offsets, strides, immediates, command.beta == 2,
                       /*group=*/IntegerAttr());
}

/// A product and what the library of a gpu does with its sums.
void Scheduler::emitLibraryProduct(const Command &command,
                                   LibraryProductOpInterface product) {
  Type element = tensorTypeOf(product.getLeft()).getElementType();
  Type resultElement = tensorTypeOf(product.getMatrix()).getElementType();
  GemmEpilogue epilogue = product.getLibraryEpilogue();
  SmallVector<int64_t> offsets, strides, lead;
  for (auto [i, place] : llvm::enumerate(command.places)) {
    offsets.push_back(place.offset);
    strides.push_back(place.loopStride);
    if (i < 3)
      lead.push_back(place.rowStride);
  }
  ArrayRef<Place> beside = ArrayRef(command.places).drop_front(3);
  auto next = [&](bool exists) -> Value {
    if (!exists)
      return {};
    Value slot = slotOf(beside.front());
    beside = beside.drop_front();
    return slot;
  };
  Value bias = next(hasBias(epilogue)), aux = next(hasAux(epilogue));
  rt::GemmOp::create(
      builder, product.getLoc(), slotOf(command.places[0]),
      slotOf(command.places[1]), slotOf(command.places[2]),
      command.scratch >= 0 ? slots[command.scratch] : Value(), bias, aux,
      /*epilogue_slots=*/ValueRange(), offsets, strides, product.getM(),
      product.getN(), product.getK(), /*batch=*/1, lead,
      ArrayRef<int64_t>{0, 0, 0}, product.getTransA(), product.getTransB(),
      command.beta, product.getGridAttr().asArrayRef(), element,
      element != resultElement,
      builder.getStringAttr(StringRef(nameOf(epilogue))), FlatSymbolRefAttr(),
      DenseI64ArrayAttr());
}

void Scheduler::emitGemm(const Command &command) {
  if (auto product = dyn_cast<LibraryProductOpInterface>(command.op))
    return emitLibraryProduct(command, product);
  auto dispatch = dyn_cast<DispatchOp>(command.op);
  auto matmul = dispatch ? dispatch.getProduct() : cast<MatmulOp>(command.op);
  Type element = tensorTypeOf(matmul.getA()).getElementType();
  SmallVector<int64_t> offsets, strides, rowStrides, lead, batchStrides;
  SmallVector<Value> epilogueSlots;
  for (auto [i, place] : llvm::enumerate(command.places)) {
    offsets.push_back(place.offset);
    strides.push_back(place.loopStride);
    if (i >= 2)
      rowStrides.push_back(place.rowStride);
    if (i >= 3)
      epilogueSlots.push_back(slotOf(place));
  }
  Value values[] = {matmul.getA(), matmul.getB(), matmul.getResult()};
  for (auto [place, value] : llvm::zip(command.places, values)) {
    lead.push_back(place.rowStride);
    auto type = tensorTypeOf(value);
    batchStrides.push_back(type.getRank() > 2
                               ? type.getDimSize(type.getRank() - 2) *
                                     place.rowStride
                               : 0);
  }
  auto gemm = rt::GemmOp::create(
      builder, command.op->getLoc(), slotOf(command.places[0]),
      slotOf(command.places[1]), slotOf(command.places[2]),
      command.scratch >= 0 ? slots[command.scratch] : Value(), /*bias=*/Value(),
      /*aux=*/Value(), epilogueSlots, offsets, strides, matmul.getM(),
      matmul.getN(), matmul.getK(), matmul.getBatch(), lead, batchStrides,
      matmul.getTransA(), matmul.getTransB(), command.beta, *matmul.getGrid(),
      element, element != matmul.getType().getElementType(),
      /*library=*/StringAttr(), FlatSymbolRefAttr(), DenseI64ArrayAttr());
  if (!dispatch)
    return;
  gemm.setEpilogue(kernels.get(dispatch, rowStrides).getSymName());
  gemm.setImmediates(KernelTable::immediatesOf(dispatch));
}

void Scheduler::emitCommands(ProgramPlan &plan) {
  Location loc = plan.program.getLoc();
  for (const Command &command : plan.commands) {
    switch (command.kind) {
    case Command::Kind::Launch:
      emitLaunch(command);
      break;
    case Command::Kind::Gemm:
      emitGemm(command);
      break;
    case Command::Kind::Fill:
      rt::FillOp::create(builder, loc, slotOf(command.places[0]),
                         command.places[0].offset, command.bytes);
      break;
    case Command::Kind::Copy:
      rt::CopyOp::create(
          builder, loc, slotOf(command.places[0]), slotOf(command.places[1]),
          ArrayRef<int64_t>{command.places[0].offset, command.places[1].offset},
          ArrayRef<int64_t>{command.places[0].loopStride,
                            command.places[1].loopStride},
          command.bytes);
      break;
    case Command::Kind::CopyStart:
      copies[command.op] = rt::CopyStartOp::create(
          builder, command.op->getLoc(), slotOf(command.places[0]),
          slotOf(command.places[1]),
          ArrayRef<int64_t>{command.places[0].offset, command.places[1].offset},
          ArrayRef<int64_t>{command.places[0].loopStride,
                            command.places[1].loopStride},
          command.bytes);
      break;
    case Command::Kind::CopyWait:
      rt::WaitOp::create(builder, command.op->getLoc(),
                         copies.lookup(command.op).getToken());
      break;
    case Command::Kind::LoopBegin: {
      auto loop = rt::LoopOp::create(builder, loc, command.count);
      builder.createBlock(&loop.getBody());
      break;
    }
    case Command::Kind::LoopEnd:
      builder.setInsertionPointAfter(
          builder.getInsertionBlock()->getParentOp());
      break;
    }
  }
}

void Scheduler::emit(ProgramPlan &plan) {
  builder.setInsertionPointToEnd(module.getBody());
  Location loc = plan.program.getLoc();
  auto program = rt::ProgramOp::create(builder, loc, plan.program.getSymName(),
                                       plan.program.getKind());
  if (Attribute name = plan.program->getAttr(kNameAttr))
    program->setAttr(kNameAttr, name);
  builder.createBlock(&program.getBody());
  slots.clear();
  for (Buffer &buffer : plan.buffers)
    slots.push_back(rt::SlotOp::create(
        builder, loc, rt::SlotType::get(builder.getContext()),
        builder.getStringAttr(buffer.name),
        rt::SlotClassAttr::get(builder.getContext(), buffer.slotClass),
        builder.getI64IntegerAttr(buffer.offset),
        builder.getI64IntegerAttr(buffer.bytes),
        builder.getI64IntegerAttr(buffer.first),
        builder.getI64IntegerAttr(buffer.last),
        buffer.state ? FlatSymbolRefAttr::get(buffer.state.getSymNameAttr())
                     : FlatSymbolRefAttr(),
        builder.getStringAttr(buffer.why),
        buffer.host ? builder.getUnitAttr() : UnitAttr(),
        buffer.rowPitch
            ? builder.getDenseI64ArrayAttr({buffer.rowBytes, buffer.rowPitch})
            : DenseI64ArrayAttr()));
  for (const Boundary &input : plan.inputs)
    rt::InputOp::create(builder, loc, input.name, slotOf(input.place),
                        input.place.offset, cast<RankedTensorType>(input.type),
                        input.fact);
  for (const Boundary &output : plan.outputs)
    rt::OutputOp::create(builder, loc, output.name, slotOf(output.place),
                         output.place.offset,
                         cast<RankedTensorType>(output.type));
  emitCommands(plan);
}

/// Memory that a product works in: of every thread on a cpu. A gpu's library
/// has one for all, which has to do for what stands in for it on the emulated
/// one.
static int64_t productBytes(const GemmShape &shape, Value a, Value result,
                            bool onGpu, int64_t maxThreads) {
  int64_t bytes = 0;
  if (isNarrowFloat(a.getType()))
    bytes =
        llvm::alignTo(narrowGemmBytes(shape, isNarrowFloat(result.getType())),
                      abi::slotAlignment);
  return onGpu ? std::max(bytes, gemmWorkspaceBytes(shape))
               : bytes * maxThreads;
}

static FailureOr<std::vector<ProgramPlan>>
planPrograms(ModuleOp module, ArrayRef<StateOp> states, int64_t maxThreads,
             KernelTable &kernels) {
  llvm::StringMap<int64_t> scratchOfKernel;
  bool onGpu = isGpu(targetOf(module)); // Its libraries use memory, no kernel.
  auto ofProduct = [&](Operation *product) {
    if (auto op = dyn_cast<LibraryProductOpInterface>(product)) {
      ArrayRef<int64_t> grid = op.getGridAttr().asArrayRef();
      return productBytes(
          {op.getM(), op.getN(), op.getK(), /*batch=*/1, grid[0], grid[1]},
          op.getLeft(), op.getMatrix(), onGpu, maxThreads);
    }
    auto op = cast<MatmulOp>(product);
    ArrayRef<int64_t> grid = *op.getGrid();
    return productBytes(
        {op.getM(), op.getN(), op.getK(), op.getBatch(), grid[0], grid[1]},
        op.getA(), op.getResult(), onGpu, maxThreads);
  };
  auto ofDispatch = [&](DispatchOp dispatch,
                        ArrayRef<Place> places) -> int64_t {
    SmallVector<int64_t> rowStrides;
    for (const Place &place : places)
      rowStrides.push_back(place.rowStride);
    rt::KernelOp kernel = kernels.get(dispatch, rowStrides);
    auto [it, inserted] = scratchOfKernel.insert({kernel.getSymName(), 0});
    if (inserted && !onGpu)
      it->second = cpu::scratchBytes(kernel);
    if (inserted)
      if (std::optional<VendorAttention> attention = libraryAttentionOf(kernel))
        it->second = attentionWorkspaceBytes(*attention);
    return onGpu ? it->second : it->second * maxThreads;
  };
  std::vector<ProgramPlan> plans;
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    auto plan = planBuffers(program, states, {ofDispatch, ofProduct});
    if (failed(plan))
      return failure();
    plans.push_back(std::move(*plan));
  }
  return plans;
}

FailureOr<std::vector<ProgramPlan>> kiln::planPrograms(ModuleOp module,
                                                       int64_t maxThreads) {
  KernelTable kernels(module);
  SmallVector<StateOp> states(module.getOps<StateOp>());
  return ::planPrograms(module, states, maxThreads, kernels);
}

LogicalResult Scheduler::run() {
  placeStates();
  auto plans = ::planPrograms(module, states, maxThreads, kernels);
  if (failed(plans))
    return failure();
  int64_t heights[] = {stateBytes[0], stateBytes[1]};
  for (ProgramPlan &plan : *plans)
    for (bool host : {false, true})
      heights[host] = std::max(heights[host], assignArena(plan, host));
  builder.setInsertionPointToEnd(module.getBody());
  rt::ArenaOp::create(builder, module.getLoc(), stateBytes[0], heights[0],
                      stateBytes[1], heights[1]);
  for (ProgramPlan &plan : *plans) {
    emit(plan);
    plan.program.erase();
  }
  return verifySchedules(module);
}

namespace {

struct SchedulePass : kiln::impl::ScheduleBase<SchedulePass> {
  using ScheduleBase::ScheduleBase;

  void runOnOperation() override {
    // Commands need the grids and tiles that earlier levels chose.
    if (failed(verifyLevel(getOperation(), Level::Dispatched)) ||
        failed(Scheduler(getOperation(), maxThreads).run()))
      signalPassFailure();
  }
};

struct VerifySchedulePass : kiln::impl::VerifyScheduleBase<VerifySchedulePass> {
  void runOnOperation() override {
    if (failed(verifySchedules(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
