//===- BufferPlan.cpp - Assignment of values to buffers ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kiln;

std::string kiln::describeOp(Operation *op) {
  std::string name = getLocationName(op->getLoc()).str();
  std::string what;
  auto add = [&](Operation *inner) {
    if (isa<YieldOp, ConstantOp, BroadcastOp, ReshapeOp>(inner))
      return;
    if (what.size() > 60)
      return;
    what += (what.empty() ? "" : "+") + inner->getName().stripDialect().str();
  };
  if (auto dispatch = dyn_cast<DispatchOp>(op))
    for (Operation &inner : dispatch.getBody().front())
      add(&inner);
  else
    add(op);
  return name.empty() ? what : name + "." + what;
}

SmallVector<rt::SlotClass> kiln::slotClassesOf(ArrayRef<StateOp> states) {
  // The types of mirrors, which are copies of parameters. Keyed by the names of
  // the parameters.
  llvm::DenseMap<StringRef, RankedTensorType> mirrors;
  for (StateOp state : states)
    if (state.getRole() == Role::Mirror)
      mirrors[*state.getOf()] = state.getTensorType();
  auto isMaster = [&](StateOp state) {
    RankedTensorType mirror = mirrors.lookup(state.getSymName());
    return mirror && elementBytes(mirror) < elementBytes(state.getTensorType());
  };
  SmallVector<rt::SlotClass> classes;
  for (StateOp state : states)
    classes.push_back(state.getRole() == Role::Optimizer || isMaster(state)
                          ? rt::SlotClass::Optimizer
                      : state.getRole() == Role::Constant
                          ? rt::SlotClass::Constant
                          : rt::SlotClass::Parameter);
  return classes;
}

//===----------------------------------------------------------------------===//
// Order and liveness
//===----------------------------------------------------------------------===//

void PlanBuilder::numberOps(Block &block) {
  for (Operation &op : block) {
    order[&op] = next++;
    if (auto microbatches = dyn_cast<MicrobatchesOp>(op)) {
      numberOps(microbatches.getForward());
      numberOps(microbatches.getBackward());
      endOf[&op] = next++;
    }
  }
}

/// Returns the position of the last op that reads a value, directly or through
/// views, concats and residuals. If micro-batches read a value that is defined
/// outside of them, their end counts as the reader.
int64_t PlanBuilder::lastUse(Value value) {
  Block *home = value.getParentBlock();
  int64_t last = -1;
  for (OpOperand &use : value.getUses()) {
    // A forward segment may also yield a value that is defined outside of the
    // micro-batches; the end of the micro-batches then counts as its reader.
    BlockArgument residual = residualArgumentOf(use);
    if (residual && use.getOwner()->getBlock() == home) {
      last = std::max(last, lastUse(residual));
      continue;
    }
    Operation *user = use.getOwner(), *outer = user;
    while (outer->getBlock() != home)
      outer = outer->getParentOp();
    if (outer != user) {
      last = std::max(last, endOf.lookup(outer));
      continue;
    }
    Family family = familyOf(user);
    auto wait = dyn_cast<CopyWaitOp>(user);
    if (family == Family::View || family == Family::Concat ||
        (wait && wait.getToken() == value))
      last = std::max(last, lastUse(user->getResult(0)));
    else if (auto start = dyn_cast<CollectiveStartOp>(user);
             start && start.getCollective() == Collective::AllGather)
      last = std::max(last, order.lookup(start.getWait()));
    else if (isa<CollectiveWaitOp>(user))
      last = std::max(last, lastUse(user->getResult(use.getOperandNumber())));
    else if (isa<ReturnOp, WriteOp>(user))
      last = next;
    else if (isa<MicrobatchesOp>(user))
      last = std::max(last, endOf.lookup(user));
    else
      last = std::max(last, order.lookup(user));
  }
  return last;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// Returns true if entry `i` of Command::places of a collective is an operand
/// that the collective only reads. A collective that sums overwrites its
/// operands.
static bool readsOperand(CollectiveStartOp start, size_t i) {
  return start.getCollective() == Collective::AllGather &&
         i < start.getInputs().size();
}

void Command::forEachAccess(
    llvm::function_ref<void(int32_t, bool)> visit) const {
  auto isRead = [&](size_t i) {
    switch (kind) {
    case Kind::Launch:
      return i < op->getNumOperands();
    case Kind::Gemm: {
      // The result of the GEMM, places[2], follows its two operands.
      size_t operands = cast<GemmOpInterface>(op).getEpilogueOperands().size();
      return i < 2 || (i > 2 && i < 3 + operands);
    }
    case Kind::Fill:
      return false;
    case Kind::Copy:
    case Kind::CopyShard:
    case Kind::CopyStart:
      return i == 0;
    case Kind::CollectiveStart:
      return readsOperand(cast<CollectiveStartOp>(op), i);
    case Kind::TransferWait: {
      auto start = dyn_cast<CollectiveStartOp>(op);
      return start ? readsOperand(start, i) : i == 0;
    }
    }
    llvm_unreachable("unknown kind of command");
  };
  for (auto [i, place] : llvm::enumerate(places))
    visit(place.buffer, !isRead(i));
  if (scratch >= 0)
    visit(scratch, true);
}

void PlanBuilder::emitCopy(Place from, Place to, Type type) {
  Command copy;
  copy.kind = Command::Kind::Copy;
  copy.places = {from, to};
  copy.type = type;
  plan.commands.push_back(std::move(copy));
}

/// If `value` is the result of a transfer, returns the operand of the transfer.
/// Otherwise returns null.
static Value transferred(Value value) {
  if (auto wait = value.getDefiningOp<CopyWaitOp>())
    return wait.getSource();
  if (auto wait = value.getDefiningOp<CollectiveWaitOp>())
    return wait.getStart()
        .getInputs()[cast<OpResult>(value).getResultNumber()];
  return Value();
}

/// Gives the gradient operand of each update the slot class 'gradient'. If the
/// operand is the result of a transfer, the operand of the transfer gets the
/// slot class 'gradient', too.
void PlanBuilder::classifyGradients(Operation *op) {
  auto dispatch = dyn_cast<DispatchOp>(op);
  if (!dispatch)
    return;
  for (Operation &inner : dispatch.getBody().front()) {
    Value read;
    if (auto update = dyn_cast<UpdateOpInterface>(inner))
      read = update.getGradient();
    else if (auto update = dyn_cast<EncodedUpdateOp>(inner))
      read = update.getGradient();
    auto argument = dyn_cast_or_null<BlockArgument>(read);
    Value gradient =
        argument ? dispatch.getInputs()[argument.getArgNumber()] : Value();
    while (gradient) {
      Buffer &buffer = plan.buffers[places.lookup(gradient).buffer];
      if (buffer.slotClass == rt::SlotClass::Activation)
        buffer.slotClass = rt::SlotClass::Gradient;
      gradient = transferred(gradient);
    }
  }
}

/// If an op reads only states, or values computed from states alone, sets the
/// slot class of its results to 'materialized'. If another op overwrites such a
/// value, the buffer gets the slot class 'activation' again.
void PlanBuilder::classifyMaterialized(Operation *op) {
  auto isFromState = [&](Value operand) {
    rt::SlotClass known = plan.buffers[places.lookup(operand).buffer].slotClass;
    return known == rt::SlotClass::Parameter ||
           known == rt::SlotClass::Constant ||
           known == rt::SlotClass::Materialized;
  };
  bool readsStates =
      op->getNumOperands() > 0 && llvm::all_of(op->getOperands(), isFromState);
  for (Value result : op->getResults()) {
    auto place = places.find(result);
    if (place == places.end())
      continue;
    rt::SlotClass &known = plan.buffers[place->second.buffer].slotClass;
    if (readsStates && known == rt::SlotClass::Activation)
      known = rt::SlotClass::Materialized;
    else if (!readsStates && known == rt::SlotClass::Materialized)
      known = rt::SlotClass::Activation;
  }
}

/// Reports an error if the target does not support the kind of the epilogue.
LogicalResult PlanBuilder::checkEpilogue(GemmOpInterface gemm) {
  EpilogueKind kind = gemm.getEpilogueKind();
  if (kind == EpilogueKind::None || kind == target.getFusionRules().epilogues)
    return success();
  return gemm->emitOpError("has an epilogue ")
         << (kind == EpilogueKind::Vendor ? "of the vendor library"
                                          : "that runs on tiles")
         << ", which the module's target, " << target.getName()
         << ", does not support";
}

LogicalResult PlanBuilder::visitWork(Operation *op) {
  for (Value operand : op->getOperands())
    if (!places.contains(operand))
      return op->emitOpError("has an operand to which no memory is assigned");
  auto gemm = dyn_cast<GemmOpInterface>(op);
  if (gemm && failed(checkEpilogue(gemm)))
    return failure();
  Place matrix;
  if (gemm && !gemm.getAccumulate())
    matrix = placeMatrix(gemm);
  placeResults(op);
  if (gemm && gemm.getAccumulate())
    matrix = places.lookup(gemm.getMatrix());
  classifyGradients(op);
  classifyMaterialized(op);
  Command command;
  command.op = op;
  auto microbatches = dyn_cast<MicrobatchesOp>(op->getParentOp());
  // A command that accumulates onto a sum over micro-batches has beta 2: its
  // first execution overwrites the sum, and its later executions add to the
  // sum.
  auto betaFor = [&](Value accumulate) -> int64_t {
    if (!accumulate)
      return 0;
    return microbatches && llvm::is_contained(microbatches.getSumArguments(),
                                              accumulate)
               ? 2
               : 1;
  };
  if (gemm) {
    command.kind = Command::Kind::Gemm;
    command.beta = betaFor(gemm.getAccumulate());
    command.places = {places.lookup(gemm.getLeft()),
                      places.lookup(gemm.getRight()), matrix};
    for (Value operand : gemm.getEpilogueOperands())
      command.places.push_back(places.lookup(operand));
    for (Value result : gemm.getEpilogueResults())
      command.places.push_back(places.lookup(result));
    if (int64_t bytes = scratchBytes.ofGemm(gemm))
      command.scratch = newBuffer(describeOp(op), rt::SlotClass::Workspace,
                                  bytes, "workspace of the GEMM");
  } else {
    auto dispatch = cast<DispatchOp>(op);
    command.kind = Command::Kind::Launch;
    if (KernelOpInterface kernel = kernelOpOf(dispatch);
        kernel && kernel.accumulatesInPlace())
      command.beta = betaFor(getTiedOperand(dispatch->getResult(0)));
    for (Value operand : op->getOperands())
      command.places.push_back(places.lookup(operand));
    for (Value result : op->getResults())
      command.places.push_back(places.lookup(result));
    if (int64_t bytes = scratchBytes.ofDispatch(dispatch, command.places))
      command.scratch = newBuffer(describeOp(op), rt::SlotClass::Workspace,
                                  bytes, "scratch of all threads");
  }
  plan.commands.push_back(std::move(command));
  return success();
}

LogicalResult PlanBuilder::visitMicrobatches(MicrobatchesOp op) {
  if (plan.microbatches.op)
    return op.emitOpError("is the second kiln.microbatches of its program, "
                          "expected at most one");
  placeSums(op);
  Block &forward = op.getForward(), &backward = op.getBackward();
  for (auto [i, value] : llvm::enumerate(op.getSliced()))
    for (Block *block : {&forward, &backward}) {
      Place place = places.lookup(value);
      place.stride = bytesOf(block->getArgument(i).getType());
      setPlace(block->getArgument(i), place);
    }
  // Fill a sum with zeros before the micro-batches unless all users of the sum
  // overwrite it in their first execution.
  for (auto [sum, result] :
       llvm::zip_equal(op.getSumArguments(), op.getSums())) {
    bool started = llvm::all_of(sum.getUses(), [&sum = sum](OpOperand &use) {
      Operation *user = use.getOwner();
      if (auto gemm = dyn_cast<GemmOpInterface>(user))
        return gemm.getAccumulate() == sum && gemm.getLeft() != sum &&
               gemm.getRight() != sum;
      KernelOpInterface kernel = kernelOpOf(user);
      if (!kernel || !kernel.accumulatesInPlace())
        return false;
      auto dispatch = cast<DispatchOp>(user);
      return getTiedOperand(dispatch->getResult(0)) == sum &&
             dispatch.getBody().getArgument(use.getOperandNumber()).hasOneUse();
    });
    if (started && !result.use_empty())
      continue;
    Command fill;
    fill.kind = Command::Kind::Fill;
    fill.places = {places.lookup(sum)};
    fill.type = sum.getType();
    plan.commands.push_back(std::move(fill));
  }
  auto nextCommand = [&] { return static_cast<int64_t>(plan.commands.size()); };
  plan.microbatches.op = op;
  plan.microbatches.forward = nextCommand();
  // A concat of the backward segment may contain residuals, whose locations in
  // buffers must be known when the ops of the forward segment are visited.
  placeConcats(backward);
  placeConcats(forward);
  for (Operation &inner : forward)
    if (failed(visit(&inner)))
      return failure();
  for (auto [argument, value] :
       llvm::zip_equal(op.getResidualArguments(), op.getResiduals()))
    setPlace(argument, places.lookup(value));
  plan.microbatches.backward = nextCommand();
  for (Operation &inner : backward)
    if (failed(visit(&inner)))
      return failure();
  for (auto [value, sum] : llvm::zip_equal(op.getYieldedSums(), op.getSums())) {
    Place from = places.lookup(value), to = places.lookup(sum);
    if (from.buffer != to.buffer || from.offset != to.offset)
      emitCopy(from, to, value.getType());
  }
  plan.microbatches.end = nextCommand();
  return success();
}

void PlanBuilder::visitWrite(WriteOp write) {
  Place from = places.lookup(write.getValue());
  int32_t index = stateBuffers.lookup(write.getStateAttr().getAttr());
  Type type = write.getValue().getType();
  if (from.buffer != index)
    stateCopies.push_back({from, densePlace(index, type), type});
}

/// If the result of a wait is only used as the new value of a state, and no op
/// after `start`, which starts the transfer, reads the old value of the state,
/// returns the location of the state.
std::optional<Place> PlanBuilder::statePlace(OpResult result,
                                             Operation *start) {
  auto write =
      result.hasOneUse() ? dyn_cast<WriteOp>(*result.user_begin()) : WriteOp();
  if (!write || isReadAfter(write.getStateAttr().getAttr(), start))
    return std::nullopt;
  return densePlace(stateBuffers.lookup(write.getStateAttr().getAttr()),
                    result.getType());
}

/// Returns true if an op after `op` reads the value that a state has at the
/// start of the program.
bool PlanBuilder::isReadAfter(StringAttr state, Operation *op) {
  return llvm::any_of(readsOf.lookup(state), [&](ReadOp read) {
    return lastUse(read.getResult()) > order.lookup(op);
  });
}

/// Schedules the start of a copy. If the copy is only used as the new value of
/// a state, and no later op reads the old value, the destination of the copy is
/// the buffer of the state.
LogicalResult PlanBuilder::visitCopy(Operation *copy) {
  Value source = copy->getOperand(0), token = copy->getResult(0);
  Place from = places.lookup(source);
  auto type = tensorTypeOf(source);
  if (from.rowStride != getColumnCount(type) && getRowCount(type) > 1)
    return copy->emitOpError("copies a tensor with padded rows, expected "
                             "contiguous rows");
  CopyWaitOp wait;
  forEachUse(token,
             [&](OpOperand &use) { wait = cast<CopyWaitOp>(use.getOwner()); });
  if (std::optional<Place> state = statePlace(wait->getResult(0), copy)) {
    setPlace(token, *state);
  } else {
    int32_t buffer = newBuffer(
        describeOp(copy), plan.buffers[from.buffer].slotClass, token.getType(),
        isa<CopyOutOp>(copy) ? "copy on the host" : "copy on the device");
    setPlace(token, densePlace(buffer, type));
  }
  Command command;
  command.kind = Command::Kind::CopyStart;
  command.op = copy;
  command.places = {from, places.lookup(token)};
  command.type = type;
  plan.commands.push_back(std::move(command));
  return success();
}

void PlanBuilder::visitWait(CopyWaitOp wait) {
  Place to = places.lookup(wait.getToken());
  setPlace(wait.getResult(), to);
  Command command;
  command.kind = Command::Kind::TransferWait;
  command.op = yieldedResidual(wait.getToken()).getDefiningOp();
  command.places = {places.lookup(wait.getSource()), to};
  plan.commands.push_back(std::move(command));
}

/// If the program returns the old value of a state, and a copy at the end of
/// the program overwrites the state, first copies the old value into a separate
/// buffer.
void PlanBuilder::keepReturnedStates() {
  for (Value value : plan.program.getReturn().getValues()) {
    Place place = places.lookup(value);
    if (llvm::none_of(stateCopies, [&](const StateCopy &copy) {
          return copy.to.buffer == place.buffer;
        }))
      continue;
    Place kept = densePlace(
        newBuffer(plan.buffers[place.buffer].name, rt::SlotClass::Activation,
                  value.getType(), "entry value that is returned"),
        value.getType());
    emitCopy(place, kept, value.getType());
    places[value] = kept;
  }
}

/// Copies new values into states at the end of the program, with the semantics
/// of a parallel copy: a state that is the source of another copy is read
/// before it is overwritten, and a cycle is broken with a temporary buffer.
void PlanBuilder::writeStates() {
  while (!stateCopies.empty()) {
    auto isRead = [&](const StateCopy &written) {
      return llvm::any_of(stateCopies, [&](const StateCopy &copy) {
        return copy.from.buffer == written.to.buffer;
      });
    };
    auto free = llvm::find_if_not(stateCopies, isRead);
    if (free != stateCopies.end()) {
      emitCopy(free->from, free->to, free->type);
      stateCopies.erase(free);
      continue;
    }
    StateCopy &first = stateCopies.front();
    Place entry = first.to, kept = entry;
    kept.buffer =
        newBuffer(plan.buffers[entry.buffer].name, rt::SlotClass::Activation,
                  first.type, "entry value that another state gets");
    emitCopy(entry, kept, first.type);
    for (StateCopy &copy : stateCopies)
      if (copy.from.buffer == entry.buffer)
        copy.from.buffer = kept.buffer;
  }
}

LogicalResult PlanBuilder::visit(Operation *op) {
  if (auto read = dyn_cast<ReadOp>(op)) {
    setPlace(read.getResult(),
             densePlace(stateBuffers.lookup(read.getStateAttr().getAttr()),
                        read.getType()));
    return success();
  }
  if (auto microbatches = dyn_cast<MicrobatchesOp>(op))
    return visitMicrobatches(microbatches);
  if (auto write = dyn_cast<WriteOp>(op)) {
    visitWrite(write);
    return success();
  }
  if (isa<ReturnOp, YieldOp, ConcatOp>(op))
    return success();
  if (familyOf(op) == Family::View) {
    auto place = viewPlace(op);
    if (!place)
      return op->emitOpError(
          "cannot be a view of its operand, because the distance between rows "
          "would not be constant; run kiln-form-dispatches, which "
          "inserts a copy");
    setPlace(op->getResult(0), *place);
    return success();
  }
  if (isa<DispatchOp, GemmOpInterface>(op))
    return visitWork(op);
  if (isa<CopyOutOp, CopyInOp>(op))
    return visitCopy(op);
  if (auto wait = dyn_cast<CopyWaitOp>(op)) {
    visitWait(wait);
    return success();
  }
  if (auto start = dyn_cast<CollectiveStartOp>(op)) {
    visitCollective(start);
    return success();
  }
  if (auto wait = dyn_cast<CollectiveWaitOp>(op)) {
    visitCollectiveWait(wait);
    return success();
  }
  if (auto take = dyn_cast<TakeShardOp>(op)) {
    visitTakeShard(take);
    return success();
  }
  return op->emitOpError("cannot be scheduled; run kiln-form-dispatches, which "
                         "moves it into a dispatch");
}

FailureOr<ProgramPlan> PlanBuilder::run() {
  ProgramOp program = plan.program;
  Block &block = program.getBlock();
  for (auto read : block.getOps<ReadOp>())
    readsOf[read.getStateAttr().getAttr()].push_back(read);
  for (StateOp state : states)
    if (state.getRole() == Role::Mirror)
      mirrors.insert(state.getSymNameAttr());
  delayUpdates(block);
  for (auto microbatches : block.getOps<MicrobatchesOp>()) {
    if (!microbatches.isDivided())
      return microbatches.emitOpError("is not divided into segments; run "
                                      "kiln-divide-microbatches");
    delayUpdates(microbatches.getForward());
    delayUpdates(microbatches.getBackward());
  }
  numberOps(block);

  for (auto [i, slotClass] : llvm::enumerate(slotClassesOf(states))) {
    StateOp state = states[i];
    int32_t buffer = newBuffer(state.getSymName().str(), slotClass,
                               state.getType(), "state");
    plan.buffers[buffer].state = state;
    stateBuffers[state.getSymNameAttr()] = buffer;
  }
  for (BlockArgument argument : block.getArguments()) {
    std::string name = program.getInputName(argument.getArgNumber()).str();
    int32_t buffer =
        newBuffer(name, rt::SlotClass::Input, argument.getType(), "input");
    setPlace(argument, densePlace(buffer, argument.getType()));
    plan.inputs.push_back({name, places.lookup(argument), argument.getType(),
                           program.getArgAttrOfType<InputAttr>(
                               argument.getArgNumber(), kInputAttr)});
  }
  placeConcats(block);
  for (Operation &op : block)
    if (failed(visit(&op)))
      return failure();
  keepReturnedStates();
  writeStates();

  for (auto [i, value] : llvm::enumerate(program.getReturn().getValues())) {
    Place place = places.lookup(value);
    Buffer &buffer = plan.buffers[place.buffer];
    if (!buffer.state && buffer.slotClass != rt::SlotClass::Input)
      buffer.slotClass = rt::SlotClass::Output;
    plan.outputs.push_back(
        {program.getOutputName(i).str(), place, value.getType(), {}});
  }
  moveIntoMicrobatches(plan);
  if (failed(findOwners()) || failed(computeLifetimes()))
    return failure();
  return std::move(plan);
}

FailureOr<ProgramPlan> kiln::planBuffers(ProgramOp program,
                                         ArrayRef<StateOp> states,
                                         ScratchBytes scratchBytes,
                                         const TargetBackend &target,
                                         RowPrograms &rowPrograms) {
  return PlanBuilder(program, states, scratchBytes, target, rowPrograms).run();
}
