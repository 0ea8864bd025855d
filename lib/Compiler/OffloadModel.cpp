//===- OffloadModel.cpp - Input of the offload planner ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OffloadModel.h"

#include "StepCost.h"

#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Conversion/KilnToKilnRT/BufferPlan.h"
#include "kiln/Dialect/Kiln/Transforms/Offload.h"
#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "llvm/ADT/EnumeratedArray.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace kiln;

/// Attribute that stores the number of an op of the forward pass while plans
/// are tried. Clones of the op keep the attribute. A model file may contain
/// attributes of this name. They are removed before ops are numbered.
static constexpr llvm::StringLiteral kNumberAttr = "planner.number";

Block &kiln::phaseBlock(ProgramOp program) {
  Block *block = &program.getBlock();
  program.walk([&](PhaseOp phase) { block = phase->getBlock(); });
  return *block;
}

static void forEachForwardOp(ProgramOp program,
                             llvm::function_ref<void(Operation &)> visit) {
  for (Operation &op : phaseBlock(program)) {
    if (isa<PhaseOp>(op))
      return;
    if (!isa<ReadOp>(op))
      visit(op);
  }
}

void kiln::numberForwardOps(ProgramOp program) {
  Builder builder(program.getContext());
  int64_t number = 0;
  forEachForwardOp(program, [&](Operation &op) {
    op.setAttr(kNumberAttr, builder.getI64IntegerAttr(number++));
  });
}

std::optional<int64_t> kiln::numberOf(Operation *op) {
  auto number = op->getAttrOfType<IntegerAttr>(kNumberAttr);
  return number ? std::optional(number.getInt()) : std::nullopt;
}

void kiln::dropNumbers(Operation *root) {
  root->walk([](Operation *op) { op->removeAttr(kNumberAttr); });
}

void kiln::markForwardOps(ProgramOp program, ArrayRef<OffloadChoice> choices) {
  SmallVector<Operation *> ops;
  forEachForwardOp(program, [&](Operation &op) { ops.push_back(&op); });
  for (const OffloadChoice &choice : choices)
    markOffload(ops[choice.op]->getResult(choice.result), choice.lag,
                choice.lead);
}

void kiln::markNumbered(ModuleOp module, ArrayRef<OffloadChoice> choices) {
  DenseMap<int64_t, SmallVector<const OffloadChoice *, 1>> byOp;
  for (const OffloadChoice &choice : choices)
    byOp[choice.op].push_back(&choice);
  module.walk([&](Operation *op) {
    if (auto number = numberOf(op))
      for (const OffloadChoice *choice : byOp.lookup(*number))
        markOffload(op->getResult(choice->result), choice->lag, choice->lead);
    op->removeAttr(kNumberAttr);
  });
}

namespace {

/// A value in memory. It is result `result` of the op of the forward pass with
/// the number `op`.
struct Numbered {
  Value value;
  int64_t op;
  unsigned result;
};

} // namespace

/// Returns the results of the forward pass that are stored in memory.
static SmallVector<Numbered> forwardValues(Block &block) {
  SmallVector<Numbered> values;
  forEachMemoryValue(block, [&](Value value, OpResult computed) {
    if (auto number = numberOf(computed.getOwner()))
      values.push_back({value, *number, computed.getResultNumber()});
  });
  return values;
}

/// Returns the model of the states of `train`. Its commands and their times are
/// those of `problem`.
static StateModel describeStates(ProgramOp train, const OffloadProblem &problem,
                                 const TargetBackend &target,
                                 const Machine &machine) {
  StateModel model;
  StateProblem &states = model.problem;
  states.seconds = problem.seconds;
  states.live = problem.live;
  states.outSecondsPerByte = problem.outSecondsPerByte;
  states.inSecondsPerByte = problem.inSecondsPerByte;
  states.copyLatency = machine.link.latency;
  states.duplex = machine.link.duplex;
  states.hostOverlaps = target.getLaunchRules().overlap;
  states.gradientsUnderWay = kGradientsUnderWay;
  states.updatesUnderWay = kUpdatesUnderWay;
  CommandOrder order(train.getBlock());
  ModuleOp module = train->getParentOfType<ModuleOp>();
  auto bytesIn = [&](Type type, rt::SlotClass slotClass) {
    return static_cast<int64_t>(
        llvm::alignTo(bytesOf(type), target.getAlignment(slotClass)));
  };
  llvm::DenseSet<StringAttr> grouped;
  DenseMap<StringAttr, SmallVector<ReadOp, 1>> reads;
  for (ReadOp read : train.getBlock().getOps<ReadOp>())
    reads[read.getStateAttr().getAttr()].push_back(read);
  auto addReaders = [&](StateGroup &group, StateOp state) {
    for (ReadOp read : reads.lookup(state.getSymNameAttr()))
      for (ArrayRef<Reader> readers : readerGroups(read, order)) {
        SmallVector<int32_t> positions;
        for (const Reader &reader : readers)
          if (int64_t position =
                  order.readingPosition(reader.operand->getOwner());
              position != group.update && position < order.size() &&
              !isa<TakeShardOp>(reader.operand->getOwner()))
            positions.push_back(static_cast<int32_t>(position));
        if (!positions.empty())
          group.readers.emplace_back(positions.front(), positions.back());
      }
    group.parameterBytes = bytesIn(state.getType(), rt::SlotClass::Parameter);
    grouped.insert(state.getSymNameAttr());
    model.parameters.push_back(state.getSymNameAttr());
  };
  std::vector<StateUpdate> updates = findUpdates(module, train);
  llvm::MapVector<Operation *, llvm::SmallPtrSet<Operation *, 4>> scalarReaders;
  for (StateUpdate &update : updates) {
    StateGroup &group = states.groups.emplace_back();
    group.update = static_cast<int32_t>(order.of(update.op));
    group.hostSeconds = dispatchSeconds(update.op, machine, MemorySpace::Host);
    SmallVector<StringAttr, 2> &moments = model.moments.emplace_back();
    for (StateOp moment : update.getUpdateStates()) {
      moments.push_back(moment.getSymNameAttr());
      group.momentBytes += bytesIn(moment.getType(), rt::SlotClass::Optimizer);
      grouped.insert(moment.getSymNameAttr());
    }
    addReaders(group, update.getUsed());
    group.updateReads = !update.copy;
    if (update.isGathered)
      for (Operation *user : update.op->getUsers())
        if (auto gather = dyn_cast<AllGatherOp>(user))
          group.renewedShare =
              double(bytesOf(gather->getOperand(0).getType())) /
              double(bytesOf(gather->getResult(0).getType()));
    for (OpResult gradient : gradientsOf(update)) {
      group.gradient = std::max(
          group.gradient,
          static_cast<int32_t>(order.completingPosition(gradient.getOwner())));
      group.gradientBytes +=
          bytesIn(gradient.getType(), rt::SlotClass::Gradient);
    }
    for (Value operand : update.op->getOperands())
      if (tensorTypeOf(operand).getRank() == 0)
        if (Operation *scalar = operand.getDefiningOp();
            scalar && order.of(scalar) >= 0)
          scalarReaders[scalar].insert(update.op);
  }
  // states.join is the position of the last scalar that all updates read, such
  // as the norm of the gradients.
  for (auto &[scalar, readers] : scalarReaders)
    if (readers.size() == updates.size())
      states.join =
          std::max(states.join, static_cast<int32_t>(order.of(scalar)));
  for (const StateGroup &group : states.groups)
    if (group.update <= states.join)
      states.join = -1;
  states.updatesLast = updatesComeLast(train, updates);
  for (StateOp weight : readOnlyWeights(module))
    addReaders(states.groups.emplace_back(), weight);
  model.moments.resize(states.groups.size());
  for (StateOp state : module.getOps<StateOp>())
    if (!grouped.contains(state.getSymNameAttr()) &&
        memoryOf(state.getType()) == MemorySpace::Device)
      states.fixedBytes += bytesIn(state.getType(), rt::SlotClass::Parameter);
  return model;
}

StateMarks StateModel::marksOf(const StateSolution &solution) const {
  StateMarks marks;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const StateChoice &choice = solution.choices[i];
    const StateLeads &leads = solution.cost.leads[i];
    bool onHost = choice.update == UpdatePlace::Host;
    if (onHost || choice.parameterOnHost)
      marks.states.push_back({parameters[i],
                              !onHost ? Residency::Host
                              : choice.parameterOnHost
                                  ? Residency::UpdatedOnHost
                                  : Residency::Mirrored,
                              leads.parameter});
    if (choice.update == UpdatePlace::Swapped)
      for (StringAttr moment : moments[i])
        marks.states.push_back({moment, Residency::Host, leads.moments});
    if (choice.gradientAway)
      marks.gradients.push_back(
          {parameters[i], leads.gradient.front(), leads.gradient.back()});
  }
  return marks;
}

FailureOr<OffloadModel> OffloadModel::build(ModuleOp dispatched,
                                            int64_t maxThreads,
                                            const Machine &machine,
                                            bool describesStates) {
  // Find the block of the forward pass. The ops that mark the phases no longer
  // exist at the dispatched level, but only ops of the forward pass have a
  // number (kNumberAttr).
  Block *block = nullptr;
  for (ProgramOp program : dispatched.getOps<ProgramOp>()) {
    if (program.getKind() != ProgramKind::Train)
      continue;
    program.getBody().walk([&](Operation *op) {
      if (block || !op->hasAttr(kNumberAttr))
        return;
      while (!isa<MicrobatchesOp, ProgramOp>(op->getParentOp()))
        op = op->getParentOp();
      block = op->getBlock();
    });
  }
  SmallVector<Numbered> values;
  if (block)
    values = forwardValues(*block);
  // Remove the numbers of the ops (kNumberAttr), because ops that differ only
  // in their numbers must get the same kernel.
  dropNumbers(dispatched);
  const TargetBackend *target = backendOf(dispatched);
  if (!target)
    return failure();
  auto plans = planPrograms(dispatched, maxThreads);
  if (failed(plans))
    return failure();
  ProgramPlan &plan = *llvm::find_if(*plans, [](ProgramPlan &plan) {
    return plan.program.getKind() == ProgramKind::Train;
  });
  if (!block)
    block = &plan.program.getBlock();

  OffloadModel model;
  auto commands = static_cast<int64_t>(plan.commands.size());
  /// Changes of the number of live bytes, indexed by command.
  using Changes = std::vector<int64_t>;
  llvm::EnumeratedArray<Changes, MemorySpace, MemorySpace::Host> changes(
      Changes(commands + 1, 0));
  for (const Buffer &buffer : plan.buffers) {
    auto bytes = static_cast<int64_t>(llvm::alignTo(
        buffer.getTotalBytes(), target->getAlignment(buffer.slotClass)));
    if (buffer.state) {
      (buffer.memory == MemorySpace::Host ? model.hostBytes
                                          : model.stateBytes) += bytes;
      continue;
    }
    Changes &change = changes[buffer.memory];
    auto [first, last] = plan.occupancyOf(buffer);
    change[std::min(std::max<int64_t>(first, 0), commands)] += bytes;
    if (last >= 0)
      change[last + 1] -= bytes;
  }
  int64_t onHost = 0, mostOnHost = 0;
  for (int64_t delta : changes[MemorySpace::Host])
    mostOnHost = std::max(mostOnHost, onHost += delta);
  model.hostBytes += mostOnHost;

  // Map the launches and GEMMs of the block to positions. The live bytes at all
  // other commands, such as fills and copies, count at the next position.
  CommandOrder order(*block);
  OffloadProblem &problem = model.problem;
  problem.seconds.assign(order.size(), 0);
  problem.live.assign(order.size(), 0);
  int64_t live = 0, between = 0;
  for (int64_t c = 0; c < commands; ++c) {
    live += changes[MemorySpace::Device][c];
    between = std::max(between, live);
    Operation *op = plan.commands[c].op;
    bool counts = plan.commands[c].kind == Command::Kind::Launch ||
                  plan.commands[c].kind == Command::Kind::Gemm;
    int64_t position = counts ? order.of(op) : -1;
    if (position < 0)
      continue;
    // If the host queue overlaps with the device queue, host launches take no
    // time on the device.
    MemorySpace memory = memoryOf(op);
    if (memory == MemorySpace::Device || !target->getLaunchRules().overlap)
      problem.seconds[position] = dispatchSeconds(op, machine, memory);
    problem.live[position] = between;
    between = 0;
  }

  // Do not offload materialized values, because computing such a value again
  // from states takes less time than copying it to the host and back.
  llvm::erase_if(values, [&](const Numbered &entry) {
    const Place &place = plan.places.find(entry.value)->second;
    return plan.buffers[place.buffer].slotClass == rt::SlotClass::Materialized;
  });
  int64_t largest = 0;
  for (const Numbered &entry : values)
    largest = std::max(largest, bytesOf(entry.value.getType()));
  for (const Numbered &entry : values) {
    int64_t bytes = bytesOf(entry.value.getType());
    Place place = plan.places.lookup(entry.value);
    const Buffer &buffer = plan.buffers[place.buffer];
    auto gap = findGap(entry.value, order);
    if (bytes * kSmallShare <= largest || !gap || gap->back - gap->left < 2 ||
        buffer.state || buffer.memory == MemorySpace::Host ||
        buffer.bytes != bytes || place.offset != 0 || place.stride != 0)
      continue;
    int64_t alignment = target->getAlignment(buffer.slotClass);
    problem.items.push_back(
        {static_cast<int64_t>(llvm::alignTo(bytes, alignment)),
         static_cast<int32_t>(gap->made), static_cast<int32_t>(gap->left),
         static_cast<int32_t>(gap->back)});
    model.values.push_back({entry.op, entry.result});
  }
  problem.outSecondsPerByte = machine.linkSecondsPerByte(LinkDirection::ToHost);
  problem.inSecondsPerByte =
      machine.linkSecondsPerByte(LinkDirection::ToDevice);
  if (describesStates && block == &plan.program.getBlock())
    model.states = describeStates(plan.program, problem, *target, machine);
  return model;
}

std::vector<OffloadChoice>
OffloadModel::choicesOf(const OffloadSolution &solution) const {
  std::vector<OffloadChoice> choices;
  for (const OffloadedItem &offloaded : solution.offloaded) {
    const OffloadItem &item = problem.items[offloaded.item];
    OffloadChoice choice = values[offloaded.item];
    choice.lag = offloaded.wait - item.made - 1;
    choice.lead = item.back - offloaded.begin;
    choices.push_back(choice);
  }
  return choices;
}

std::vector<std::pair<size_t, int32_t>>
OffloadModel::itemsOf(ArrayRef<OffloadChoice> choices) const {
  DenseMap<std::pair<int64_t, unsigned>, const OffloadChoice *> byValue;
  for (const OffloadChoice &choice : choices)
    byValue[{choice.op, choice.result}] = &choice;
  std::vector<std::pair<size_t, int32_t>> offloaded;
  for (auto [i, value] : llvm::enumerate(values))
    if (const OffloadChoice *choice = byValue.lookup({value.op, value.result}))
      offloaded.emplace_back(
          i, static_cast<int32_t>(problem.items[i].made + 1 + choice->lag));
  return offloaded;
}
