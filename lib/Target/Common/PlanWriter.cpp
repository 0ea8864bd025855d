//===- PlanWriter.cpp - Writes the memory plan as JSON --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/ProgramWriter.h"

#include "kiln/Support/Mesh.h"
#include "kiln/Target/Interface/TargetBackend.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kiln;
using llvm::json::Array;
using llvm::json::Object;
using JsonValue = llvm::json::Value;

Object kiln::slotObject(rt::SlotOp slot, const TargetBackend &target) {
  Object object{{"name", slot.getName()},
                {"class", rt::stringifySlotClass(slot.getSlotClass())},
                {"offset", static_cast<int64_t>(slot.getOffset())},
                {"bytes", static_cast<int64_t>(slot.getBytes())},
                {"alignment", target.getAlignment(slot.getSlotClass())},
                {"first", static_cast<int64_t>(slot.getFirst())},
                {"last", static_cast<int64_t>(slot.getLast())},
                {"why", slot.getWhy().value_or("")}};
  if (slot.getMemory() == MemorySpace::Host)
    object["arena"] = "host";
  if (slot.getRing())
    object["ring"] = slot.getRingStride();
  if (int64_t owner = rt::ownerOf(slot); owner != kNoOwner)
    object["owner"] = owner;
  if (auto rows = slot.getRows())
    object["rows"] = Array{(*rows)[0], (*rows)[1]};
  return object;
}

/// Returns the names of the states that kernels on the host write.
static llvm::StringSet<> findUpdatedOnHost(ModuleOp module) {
  llvm::StringSet<> names;
  module.walk([&](rt::LaunchOp launch) {
    auto command = cast<rt::CommandOpInterface>(launch.getOperation());
    if (rt::memoryOf(command) != MemorySpace::Host)
      return;
    for (const rt::MemoryAccess &access : command.getAccesses())
      if (rt::SlotOp slot = rt::slotOf(access.slot);
          access.writes() && slot.getState())
        names.insert(slot.getName());
  });
  return names;
}

/// Writes the decisions of the planner, one object per stage of the forward
/// pass.
static Array writeChoices(ModuleOp module) {
  Array choices;
  auto plan = module->getAttrOfType<PlanAttr>(kPlanAttr);
  if (!plan)
    return choices;
  auto names = [](ArrayAttr list) {
    Array texts;
    for (Attribute name : list)
      texts.push_back(cast<StringAttr>(name).getValue());
    return texts;
  };
  for (StageChoiceAttr stage : plan.getStages())
    choices.push_back(
        Object{{"stage", stage.getStage()},
               {"layer", stage.getLayer().getValue()},
               {"forward_runs", stage.getForwardRuns()},
               {"keeps_input", stage.getKeepsInput()},
               {"keeps", names(stage.getKeeps())},
               {"offloads", names(stage.getOffloads())},
               {"repeats", names(stage.getRepeats())},
               {"kept_bytes", stage.getKeptBytes()},
               {"offloaded_bytes", stage.getOffloadedBytes()},
               {"repeated_bytes", stage.getRepeatedBytes()},
               {"repeated_ms", stage.getRepeatedMs().getValueAsDouble()}});
  return choices;
}

/// Writes the residuals (values that the forward pass stores for the backward
/// pass) that are stored in an encoding, with the sizes of both forms.
static Array writeCompressed(ModuleOp module) {
  Array values;
  auto list = module->getAttrOfType<ArrayAttr>(kEncodedAttr);
  if (!list)
    return values;
  for (auto encoded : list.getAsRange<EncodedAttr>())
    values.push_back(Object{{"value", encoded.getValue().getValue()},
                            {"as", encoded.getAs().getValue()},
                            {"tag", encoded.getLossy() ? "lossy" : "exact"},
                            {"bytes", encoded.getBytes()},
                            {"encoded_bytes", encoded.getEncodedBytes()}});
  return values;
}

/// Returns the names of the commands in the order of command indices.
static Array writeCommandNames(rt::ProgramOp program) {
  Array names;
  for (Operation *command : rt::commandsOf(program))
    names.push_back(rt::nameOf(command));
  return names;
}

/// Writes the micro-batches of a program: their order, and the first and last
/// command of the forward and of the backward segment.
static JsonValue writeMicrobatches(rt::ProgramOp program) {
  std::optional<rt::MicrobatchCommands> commands = rt::microbatchesOf(program);
  if (!commands)
    return nullptr;
  auto slots = static_cast<int64_t>(commands->op.getSlots());
  return Object{{"count", static_cast<int64_t>(commands->op.getCount())},
                {"order", commands->op.getSegmentOrder().text()},
                {"ring_slots", slots},
                {"forward", Array{commands->forward, commands->backward - 1}},
                {"backward", Array{commands->backward, commands->end - 1}}};
}

/// Returns a text such as "dp=2".
static std::string meshText(DictionaryAttr mesh) {
  std::string text;
  for (NamedAttribute axis : mesh)
    text += (text.empty() ? "" : ",") + axis.getName().str() + "=" +
            std::to_string(cast<IntegerAttr>(axis.getValue()).getInt());
  return text;
}

namespace {

/// Bytes that copies transfer between device and host, and bytes of the tensors
/// of collectives. A reduce-scatter or an all-gather counts the whole tensor,
/// not one shard.
struct TransferredBytes {
  int64_t out = 0, in = 0, reduced = 0, scattered = 0, gathered = 0;

  int64_t &of(rt::BeginOp begin) {
    switch (begin.getKind()) {
    case rt::TransferKind::AllReduce:
      return reduced;
    case rt::TransferKind::ReduceScatter:
      return scattered;
    case rt::TransferKind::AllGather:
      return gathered;
    default:
      return begin.isOut() ? out : in;
    }
  }
};

} // namespace

/// Counts the bytes that one execution of a program transfers.
static TransferredBytes countTransfers(rt::ProgramOp program) {
  TransferredBytes bytes;
  program.walk([&](rt::BeginOp begin) {
    auto microbatches = dyn_cast<rt::MicrobatchesOp>(begin->getParentOp());
    int64_t runs = microbatches && begin.getWhen() == rt::When::Always
                       ? static_cast<int64_t>(microbatches.getCount())
                       : 1;
    bytes.of(begin) += begin.getBytes() * runs;
  });
  return bytes;
}

/// Two sums for each memory class: the bytes of the slots that are occupied at
/// the peak, and the bytes of all slots.
using ClassBytes = llvm::MapVector<StringRef, std::pair<int64_t, int64_t>>;

/// Returns the bytes of each memory class on one device. `at` is the index of
/// the command at which the program needs most memory. If some slots exist
/// on one rank only, the device is that of the rank that needs most memory at
/// this command.
static ClassBytes
classBytesOf(rt::ProgramOp program,
             const std::optional<rt::MicrobatchCommands> &microbatches,
             int64_t at) {
  ClassBytes most;
  int64_t mostLive = -1;
  for (int64_t owner : rt::ownersOf(program)) {
    ClassBytes classes;
    for (StringRef name : {"parameter", "gradient", "optimizer", "activation",
                           "workspace", "communication"})
      classes[name] = {0, 0};
    int64_t live = 0;
    for (rt::SlotOp slot : program.getBody().front().getOps<rt::SlotOp>()) {
      if (slot.getMemory() == MemorySpace::Host || !rt::exists(slot, owner))
        continue;
      auto &[atPeak, total] =
          classes[rt::stringifySlotClass(slot.getSlotClass())];
      total += slot.getTotalBytes();
      auto [first, last] = rt::occupancyOf(slot, microbatches);
      bool isOccupied = first <= at && at <= last;
      if (slot.getState() || isOccupied)
        atPeak += slot.getTotalBytes();
      if (!slot.getState() && isOccupied)
        live += slot.getTotalBytes();
    }
    if (live > mostLive) {
      mostLive = live;
      most = std::move(classes);
    }
  }
  return most;
}

/// Returns true if each tensor-parallel rank has only some rows of the values
/// that a layer passes to the next layer. Only in this case does a module
/// contain reduce-scatters over the tensor-parallel ranks, so the function
/// searches for one.
static bool dividesRows(ModuleOp module) {
  StringRef axis(support::tensorAxis.data(), support::tensorAxis.size());
  WalkResult walk = module->walk([&](rt::BeginOp begin) {
    bool divides = begin.getKind() == rt::TransferKind::ReduceScatter &&
                   begin.getAxis() == axis;
    return divides ? WalkResult::interrupt() : WalkResult::advance();
  });
  return walk.wasInterrupted();
}

/// Writes the plan. Its members "by_class" and "declared" describe the program
/// with the largest arena. "by_class" counts the live bytes of each memory
/// class at the command with the most live bytes; "declared" counts the bytes
/// of all slots of each class.
Object kiln::writePlan(ModuleOp module, const TargetBackend &target,
                       const BuildRecord &record) {
  auto arena = *module.getOps<rt::ArenaOp>().begin();
  Object byClass, declared, programs;
  Array buffers, commandNames;
  JsonValue segments = nullptr;
  std::string worstName;
  int64_t worst = -1;
  TransferredBytes moved, averaged;
  llvm::StringSet<> updatedOnHost = findUpdatedOnHost(module);
  for (rt::ProgramOp program : module.getOps<rt::ProgramOp>()) {
    if (program.getKind() == ProgramKind::Train)
      moved = countTransfers(program);
    if (program.getKind() == ProgramKind::Sync)
      averaged = countTransfers(program);
    auto slots = program.getBody().front().getOps<rt::SlotOp>();
    int64_t height = arena.getStates(), hostHeight = arena.getHostStates();
    for (rt::SlotOp slot : slots) {
      int64_t &side =
          slot.getMemory() == MemorySpace::Host ? hostHeight : height;
      side = std::max<int64_t>(side, slot.getOffset() + slot.getTotalBytes());
    }
    std::vector<int64_t> live = rt::liveBytes(program);
    std::optional<rt::MicrobatchCommands> microbatches =
        rt::microbatchesOf(program);
    int64_t at = live.empty() ? 0 : llvm::max_element(live) - live.begin();
    int64_t most = live.empty() ? 0 : live[at];
    programs[getProgramName(program)] = Object{{"height", height},
                                               {"max_live_bytes", most},
                                               {"host_height", hostHeight},
                                               {"peak_command", at},
                                               {"commands", live.size()}};
    if (height <= worst)
      continue;
    worst = height;
    worstName = getProgramName(program).str();
    commandNames = writeCommandNames(program);
    segments = writeMicrobatches(program);
    ClassBytes classes = classBytesOf(program, microbatches, at);
    buffers.clear();
    for (rt::SlotOp slot : slots) {
      Object buffer = slotObject(slot, target);
      if (slot.getState())
        buffer["residency"] = slot.getMemory() == MemorySpace::Device ? "device"
                              : updatedOnHost.contains(slot.getName())
                                  ? "updated_on_host"
                                  : "host";
      buffers.push_back(std::move(buffer));
    }
    static const std::pair<StringRef, StringRef> names[] = {
        {"parameter", "parameters"},
        {"gradient", "gradients"},
        {"activation", "activations"}};
    byClass.clear();
    declared.clear();
    for (auto &[name, sums] : classes) {
      StringRef key = name;
      for (auto [from, to] : names)
        if (from == name)
          key = to;
      byClass[key] = sums.first;
      declared[key] = sums.second;
    }
  }
  int64_t height = arena.getHeight();
  Object plan{{"predicted_peak_bytes", height},
              {"device_arena_bytes", height},
              {"host_arena_bytes", static_cast<int64_t>(arena.getHostHeight())},
              {"host_state_bytes", static_cast<int64_t>(arena.getHostStates())},
              {"copied_out_bytes_per_step", moved.out},
              {"copied_in_bytes_per_step", moved.in},
              {"state_bytes", static_cast<int64_t>(arena.getStates())},
              {"by_class", std::move(byClass)},
              {"declared", std::move(declared)},
              {"programs", std::move(programs)},
              {"microbatches", record.microbatches},
              {"predicted_step_ms", record.predictedStepMs},
              {"lower_bound_ms", record.lowerBoundMs},
              {"choices", writeChoices(module)},
              {"program", worstName},
              {"command_names", std::move(commandNames)},
              {"segments", std::move(segments)},
              {"buffers", std::move(buffers)}};
  if (moved.out + moved.in > 0)
    plan["link"] =
        Object{{"out_bytes_per_second", record.plannedOutBytesPerSecond},
               {"in_bytes_per_second", record.plannedInBytesPerSecond}};
  if (auto mesh = module->getAttrOfType<DictionaryAttr>(kMeshAttr)) {
    plan["mesh"] = meshText(mesh);
    if (dividesRows(module))
      plan["sequence_parallel"] = true;
    plan["all_reduced_bytes_per_step"] = moved.reduced;
    plan["reduce_scattered_bytes_per_step"] = moved.scattered;
    plan["all_gathered_bytes_per_step"] = moved.gathered;
  }
  if (auto steps = module->getAttrOfType<IntegerAttr>(kSyncEveryAttr)) {
    plan["sync_every"] = steps.getInt();
    plan["all_reduced_bytes_per_sync"] = averaged.reduced;
    plan["predicted_sync_ms"] = record.predictedSyncMs;
  }
  if (!record.lossy.empty())
    plan["lossy"] = record.lossy;
  if (Array compressed = writeCompressed(module); !compressed.empty())
    plan["compressed"] = std::move(compressed);
  // Values that the memory planner provides: the budgets, and the step time and
  // the peak memory of the program before planning.
  if (auto planned = module->getAttrOfType<PlanAttr>(kPlanAttr)) {
    if (auto budget = planned.getBudget())
      plan["budget_bytes"] = *budget;
    if (auto budget = planned.getHostBudget())
      plan["host_budget_bytes"] = *budget;
    plan["unplanned_step_ms"] = planned.getUnplannedStepMs().getValueAsDouble();
    plan["unplanned_peak_bytes"] = planned.getUnplannedPeakBytes();
  }
  return plan;
}
