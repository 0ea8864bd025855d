//===- Schedule.cpp - Conversion to the scheduled level ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Conversion/KilnToKilnRT/Passes.h"

#include "KernelTable.h"
#include "PlaceBuffers.h"
#include "PlaceWaits.h"
#include "kiln/Conversion/KilnToKilnRT/BufferPlan.h"

#include "kiln/Abi/GemmWorkspace.h"
#include "kiln/Dialect/Kiln/IR/LaunchArguments.h"
#include "kiln/Dialect/Kiln/IR/RowPrograms.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Target/Interface/TargetRegistry.h"

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
  Scheduler(ModuleOp module, const TargetBackend &target,
            const ScheduleOptions &options, RowPrograms &rowPrograms)
      : module(module), target(target), rowPrograms(rowPrograms),
        options(options), kernels(module),
        queues(module, kernels.getSymbols(), target.getLaunchRules().overlap),
        builder(module.getContext()) {}
  LogicalResult run();

private:
  void emit(ProgramPlan &plan);
  void emitProgram(ProgramPlan &plan);
  void emitCommands(ArrayRef<Command> commands);
  void emitLaunch(const Command &command);
  void emitGemm(const Command &command);
  void emitCollective(const Command &command);
  void emitCopyShard(const Command &command);
  Value viewOf(const Place &place, RankedTensorType type);
  Value viewOf(const Place &place, Type type) {
    return viewOf(place, cast<RankedTensorType>(type));
  }
  Value scratchOf(const Command &command) {
    return command.scratch >= 0 ? slots[command.scratch] : Value();
  }
  StringRef queueOf(const Command &command);
  ArrayAttr argumentsOf(DispatchOp dispatch);

  ModuleOp module;
  const TargetBackend &target;
  RowPrograms &rowPrograms;
  const ScheduleOptions &options;
  KernelTable kernels;
  QueueTable queues;
  OpBuilder builder;
  // State of the program that is being emitted.
  ProgramPlan *plan = nullptr;
  SmallVector<Value> slots;            ///< Indexed by buffer.
  DenseMap<Operation *, Value> tokens; ///< Keyed by the starting op.
  /// Views in the current block, keyed by slot, offset, stride and type.
  using ViewKey = std::tuple<Value, int64_t, int64_t, Type>;
  DenseMap<ViewKey, Value> views;
};

} // namespace

/// Returns the view of the buffer location `place` with the given type. Creates
/// the view if the current block does not contain it.
Value Scheduler::viewOf(const Place &place, RankedTensorType type) {
  MemRefType viewed =
      rt::viewType(type, place.rowStride, plan->buffers[place.buffer].memory);
  Value slot = slots[place.buffer];
  Value &view = views[{slot, place.offset, place.stride, viewed}];
  if (!view)
    view = rt::ViewOp::create(builder, slot.getLoc(), slot, place.offset,
                              place.stride, viewed);
  return view;
}

StringRef Scheduler::queueOf(const Command &command) {
  // A command that accesses host memory runs on the host.
  MemorySpace memory = MemorySpace::Device;
  for (const Place &place : command.places)
    memory = std::max(memory, plan->buffers[place.buffer].memory);
  return queues.executing(memory).getValue();
}

/// Returns the launch arguments of a dispatch, or null if it has none.
ArrayAttr Scheduler::argumentsOf(DispatchOp dispatch) {
  SmallVector<Attribute> arguments =
      launchArgumentsOf(dispatch.getBody().front());
  return arguments.empty() ? ArrayAttr() : builder.getArrayAttr(arguments);
}

/// Returns whether a command overwrites its result buffer or adds to the
/// contents of the buffer.
static rt::Accumulation accumulationOf(const Command &command) {
  return static_cast<rt::Accumulation>(command.beta);
}

void Scheduler::emitLaunch(const Command &command) {
  auto dispatch = cast<DispatchOp>(command.op);
  SmallVector<int64_t> rowStrides;
  SmallVector<Value> reads, writes;
  for (auto [i, place] : llvm::enumerate(command.places)) {
    rowStrides.push_back(place.rowStride);
    bool isRead = i < dispatch->getNumOperands();
    if (isRead)
      reads.push_back(viewOf(place, dispatch->getOperand(i).getType()));
    else
      writes.push_back(viewOf(
          place,
          dispatch->getResult(i - dispatch->getNumOperands()).getType()));
  }
  rt::KernelOp kernel = kernels.get(dispatch, rowStrides);
  rt::LaunchOp::create(builder, dispatch.getLoc(), kernel.getSymName(),
                       queueOf(command), /*after=*/ArrayAttr(), reads, writes,
                       scratchOf(command), argumentsOf(dispatch),
                       accumulationOf(command), /*group=*/IntegerAttr());
}

/// Returns the type of a GEMM operand or result as a matrix, with a leading
/// batch dimension if the batch is larger than 1.
static RankedTensorType matrixType(GemmOpInterface gemm,
                                   RankedTensorType type) {
  int64_t rows = getRowCount(type), columns = getColumnCount(type);
  if (gemm.getBatch() == 1)
    return type.clone({rows, columns});
  return type.clone({gemm.getBatch(), rows / gemm.getBatch(), columns});
}

void Scheduler::emitGemm(const Command &command) {
  auto gemm = cast<GemmOpInterface>(command.op);
  auto matrix = [&](unsigned i, RankedTensorType type) {
    return viewOf(command.places[i], matrixType(gemm, type));
  };
  Value a = matrix(0, tensorTypeOf(gemm.getLeft())),
        b = matrix(1, tensorTypeOf(gemm.getRight())),
        c = matrix(2, gemm.getMatrixType());
  // kilnrt.gemm has named operands for a vendor epilogue (bias, aux), and
  // operand lists for an epilogue on tiles (reads, writes).
  Value bias, aux;
  SmallVector<Value> reads, writes;
  const Place *next = command.places.begin() + 3;
  auto addView = [&](Value value, SmallVector<Value> &others) {
    Value view = viewOf(*next++, value.getType());
    if (value == gemm.getBiasRow())
      bias = view;
    else if (value == gemm.getAux())
      aux = view;
    else
      others.push_back(view);
  };
  for (Value operand : gemm.getEpilogueOperands())
    addView(operand, reads);
  for (Value result : gemm.getEpilogueResults())
    addView(result, writes);
  StringAttr kernel, library;
  if (gemm.getGemmKernel() != GemmKernel::Blas)
    kernel = builder.getStringAttr(StringRef(nameOf(gemm.getGemmKernel())));
  FlatSymbolRefAttr epilogue;
  ArrayAttr arguments;
  switch (gemm.getEpilogueKind()) {
  case EpilogueKind::None:
    break;
  case EpilogueKind::Vendor:
    library =
        builder.getStringAttr(StringRef(nameOf(gemm.getVendorEpilogue())));
    break;
  case EpilogueKind::Tiles: {
    auto dispatch = cast<DispatchOp>(command.op);
    SmallVector<int64_t> rowStrides;
    for (const Place &place : ArrayRef(command.places).drop_front(2))
      rowStrides.push_back(place.rowStride);
    epilogue = FlatSymbolRefAttr::get(
        kernels.get(dispatch, rowStrides).getSymNameAttr());
    arguments = argumentsOf(dispatch);
    break;
  }
  }
  rt::GemmOp::create(
      builder, command.op->getLoc(), queueOf(command),
      /*after=*/ArrayAttr(), a, gemm.getTransA(), b, gemm.getTransB(), c,
      accumulationOf(command), gemm.getGridAttr().asArrayRef(), kernel, library,
      bias, aux, epilogue, reads, writes, arguments, scratchOf(command));
}

void Scheduler::emitCollective(const Command &command) {
  auto start = cast<CollectiveStartOp>(command.op);
  size_t count = start.getInputs().size();
  SmallVector<Value> inputs, outputs;
  for (auto [i, value] : llvm::enumerate(start.getInputs()))
    inputs.push_back(viewOf(command.places[i], value.getType()));
  for (auto [i, token] : llvm::enumerate(start.getTokens()))
    outputs.push_back(viewOf(command.places[count + i], token.getType()));
  // A reduce-scatter also overwrites the tensors that it sums.
  SmallVector<Value> writes;
  if (start.getCollective() == Collective::ReduceScatter)
    writes = inputs;
  llvm::append_range(writes, outputs);
  rt::BeginOp::create(
      builder, start.getLoc(), rt::transferKindOf(start.getCollective()),
      start.getAxisAttr(), tokens.at(start),
      queues.reducing(start.getAxis()).getValue(),
      /*after=*/ArrayAttr(), inputs, writes, start.getOwnersAttr());
}

void Scheduler::emitCopyShard(const Command &command) {
  auto take = cast<TakeShardOp>(command.op);
  Value from = viewOf(command.places[0], take.getX().getType()),
        to = viewOf(command.places[1], take.getShard().getType());
  rt::CopyOp::create(builder, take.getLoc(), take.getAxisAttr(),
                     queueOf(command), /*after=*/ArrayAttr(), from, to);
}

/// Emits the commands of a program. The commands of micro-batches are emitted
/// into the regions of a kilnrt.microbatches.
void Scheduler::emitProgram(ProgramPlan &plan) {
  ArrayRef<Command> commands = plan.commands;
  auto [op, forward, backward, end] = plan.microbatches;
  if (!op)
    return emitCommands(commands);
  emitCommands(commands.take_front(forward));
  int64_t slots = op.getSegmentOrder().slots(op.getCount());
  auto microbatches = rt::MicrobatchesOp::create(
      builder, op.getLoc(), op.getCountAttr(), op.getOrderAttr(),
      builder.getI64IntegerAttr(slots));
  DenseMap<ViewKey, Value> around = std::move(views);
  for (auto [region, part] :
       {std::pair(&microbatches.getForward(),
                  commands.slice(forward, backward - forward)),
        std::pair(&microbatches.getBackward(),
                  commands.slice(backward, end - backward))}) {
    views.clear();
    builder.createBlock(region);
    emitCommands(part);
  }
  views = std::move(around);
  builder.setInsertionPointAfter(microbatches);
  emitCommands(commands.drop_front(end));
}

void Scheduler::emitCommands(ArrayRef<Command> commands) {
  Location loc = plan->program.getLoc();
  for (const Command &command : commands) {
    auto view = [&](unsigned i) {
      return viewOf(command.places[i], command.type);
    };
    switch (command.kind) {
    case Command::Kind::Launch:
      emitLaunch(command);
      break;
    case Command::Kind::Gemm:
      emitGemm(command);
      break;
    case Command::Kind::Fill:
      rt::FillOp::create(builder, loc, queueOf(command), /*after=*/ArrayAttr(),
                         view(0));
      break;
    case Command::Kind::Copy: {
      Value from = view(0), to = view(1);
      rt::CopyOp::create(builder, loc, /*axis=*/StringAttr(), queueOf(command),
                         /*after=*/ArrayAttr(), from, to);
      break;
    }
    case Command::Kind::CopyStart: {
      Value from = view(0), to = view(1);
      rt::BeginOp::create(builder, command.op->getLoc(), rt::TransferKind::Copy,
                          /*axis=*/StringAttr(), tokens.at(command.op),
                          queues.copyingTo(memoryOf(command.op)).getValue(),
                          /*after=*/ArrayAttr(), from, to,
                          /*owners=*/DenseI64ArrayAttr());
      break;
    }
    case Command::Kind::CollectiveStart:
      emitCollective(command);
      break;
    case Command::Kind::CopyShard:
      emitCopyShard(command);
      break;
    case Command::Kind::TransferWait:
      rt::WaitOp::create(builder, command.op->getLoc(), tokens.at(command.op),
                         queues.executing(MemorySpace::Device).getValue(),
                         /*too=*/ArrayAttr());
      break;
    }
    if (command.when != rt::When::Always)
      cast<rt::CommandOpInterface>(*std::prev(builder.getInsertionPoint()))
          .setWhen(command.when);
  }
}

/// Returns true if several transfers that command `start` starts may be in
/// progress at the same time: the backward segment waits for a transfer that
/// the forward segment starts, and several micro-batches may be in flight.
static bool hasRingToken(const ProgramPlan &plan, int64_t start) {
  auto [op, forward, backward, end] = plan.microbatches;
  if (!op || start < forward || start >= backward ||
      op.getSegmentOrder().slots(op.getCount()) == 1)
    return false;
  auto wait = llvm::find_if(plan.commands, [&](const Command &command) {
    return command.kind == Command::Kind::TransferWait &&
           command.op == plan.commands[start].op;
  });
  return wait - plan.commands.begin() >= backward;
}

void Scheduler::emit(ProgramPlan &emitted) {
  plan = &emitted;
  builder.setInsertionPointToEnd(module.getBody());
  Location loc = plan->program.getLoc();
  auto program = rt::ProgramOp::create(builder, loc, plan->program.getSymName(),
                                       plan->program.getKind());
  if (Attribute name = plan->program->getAttr(kNameAttr))
    program->setAttr(kNameAttr, name);
  builder.createBlock(&program.getBody());
  slots.clear();
  views.clear();
  tokens.clear();
  for (Buffer &buffer : plan->buffers)
    slots.push_back(rt::SlotOp::create(
        builder, loc, rt::SlotType::get(builder.getContext()),
        builder.getStringAttr(buffer.name),
        rt::SlotClassAttr::get(builder.getContext(), buffer.slotClass),
        MemorySpaceAttr::get(builder.getContext(), buffer.memory),
        builder.getI64IntegerAttr(buffer.offset),
        builder.getI64IntegerAttr(buffer.bytes),
        builder.getI64IntegerAttr(buffer.first),
        builder.getI64IntegerAttr(buffer.last),
        buffer.state ? FlatSymbolRefAttr::get(buffer.state.getSymNameAttr())
                     : FlatSymbolRefAttr(),
        buffer.instances > 1 ? builder.getDenseI64ArrayAttr(
                                   {buffer.ringStride, buffer.instances})
                             : DenseI64ArrayAttr(),
        buffer.rowPitch
            ? builder.getDenseI64ArrayAttr({buffer.rowBytes, buffer.rowPitch})
            : DenseI64ArrayAttr(),
        ownerAttr(builder.getContext(), buffer.owner),
        builder.getStringAttr(buffer.why)));
  for (auto [i, command] : llvm::enumerate(plan->commands))
    if (command.startsTransfer())
      tokens[command.op] =
          rt::TokenOp::create(builder, loc, hasRingToken(*plan, i));
  for (const Boundary &input : plan->inputs) {
    Value view = viewOf(input.place, input.type);
    rt::InputOp::create(builder, loc, input.name, view, input.fact);
  }
  for (const Boundary &output : plan->outputs) {
    Value view = viewOf(output.place, output.type);
    rt::OutputOp::create(builder, loc, output.name, view);
  }
  emitProgram(*plan);
  placeWaits(program, queues);
}

static FailureOr<std::vector<ProgramPlan>>
planPrograms(ModuleOp module, const TargetBackend &target,
             ArrayRef<StateOp> states, int64_t maxThreads, KernelTable &kernels,
             RowPrograms &rowPrograms) {
  llvm::StringMap<int64_t> scratchOfKernel;
  auto ofGemm = [&](GemmOpInterface gemm) {
    ArrayRef<int64_t> grid = gemm.getGridAttr().asArrayRef();
    return target.getGemmWorkspaceBytes(
        {gemm.getM(), gemm.getN(), gemm.getK(), gemm.getBatch(), grid[0],
         grid[1], gemm.getGemmKernel()},
        tensorTypeOf(gemm.getLeft()).getElementType(),
        gemm.getMatrixType().getElementType(), maxThreads);
  };
  auto ofDispatch = [&](DispatchOp dispatch,
                        ArrayRef<Place> places) -> int64_t {
    SmallVector<int64_t> rowStrides;
    for (const Place &place : places)
      rowStrides.push_back(place.rowStride);
    rt::KernelOp kernel = kernels.get(dispatch, rowStrides);
    auto [it, inserted] = scratchOfKernel.insert({kernel.getSymName(), 0});
    if (inserted)
      it->second = target.getScratchBytes(kernel, maxThreads);
    return it->second;
  };
  std::vector<ProgramPlan> plans;
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    auto plan =
        planBuffers(program, states, {ofDispatch, ofGemm}, target, rowPrograms);
    if (failed(plan))
      return failure();
    plans.push_back(std::move(*plan));
  }
  return plans;
}

FailureOr<std::vector<ProgramPlan>> kiln::planPrograms(ModuleOp module,
                                                       int64_t maxThreads) {
  const TargetBackend *target = backendOf(module);
  if (!target)
    return failure();
  KernelTable kernels(module);
  RowPrograms rowPrograms;
  SmallVector<StateOp> states(module.getOps<StateOp>());
  return ::planPrograms(module, *target, states, maxThreads, kernels,
                        rowPrograms);
}

LogicalResult Scheduler::run() {
  BufferPlacer placer(module, target);
  auto plans = ::planPrograms(module, target, placer.getStates(),
                              options.maxThreads, kernels, rowPrograms);
  if (failed(plans))
    return failure();
  const BytesOfMemory &stateBytes = placer.getStateBytes();
  BytesOfMemory heights = stateBytes;
  for (ProgramPlan &plan : *plans)
    for (auto [height, bytes] : llvm::zip_equal(heights, placer.place(plan)))
      height = std::max(height, bytes);
  builder.setInsertionPointToEnd(module.getBody());
  rt::ArenaOp::create(builder, module.getLoc(), stateBytes[MemorySpace::Device],
                      heights[MemorySpace::Device],
                      stateBytes[MemorySpace::Host],
                      heights[MemorySpace::Host]);
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
    const TargetBackend *target = backendOf(getOperation());
    ScheduleOptions options;
    options.maxThreads = maxThreads;
    // Check that earlier passes set the grids and tiles that commands require.
    if (!target || failed(verifyLevel(getOperation(), Level::Dispatched)) ||
        failed(Scheduler(getOperation(), *target, options,
                         getAnalysis<RowPrograms>())
                   .run()))
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
