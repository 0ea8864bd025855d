//===- PlanWriter.cpp - The memory plan as JSON ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Target/Common/ProgramWriter.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kiln;
using llvm::json::Array;
using llvm::json::Object;

Object kiln::slotObject(rt::SlotOp slot) {
  Object object{{"name", slot.getName()},
                {"class", rt::stringifySlotClass(slot.getSlotClass())},
                {"offset", static_cast<int64_t>(slot.getOffset())},
                {"bytes", static_cast<int64_t>(slot.getBytes())},
                {"alignment", abi::slotAlignment},
                {"first", static_cast<int64_t>(slot.getFirst())},
                {"last", static_cast<int64_t>(slot.getLast())},
                {"why", slot.getWhy().value_or("")}};
  if (slot.getHost())
    object["arena"] = "host";
  if (auto rows = slot.getRows())
    object["rows"] = Array{(*rows)[0], (*rows)[1]};
  return object;
}

/// What the planner decided, stage by stage.
static Array writeChoices(ModuleOp module) {
  Array choices;
  auto plan = module->getAttrOfType<DictionaryAttr>("kiln.plan");
  auto stages = plan ? plan.getAs<ArrayAttr>("choices") : ArrayAttr();
  auto names = [](ArrayAttr list) {
    Array texts;
    for (Attribute name : list)
      texts.push_back(cast<StringAttr>(name).getValue());
    return texts;
  };
  for (Attribute entry : stages ? stages.getValue() : ArrayRef<Attribute>()) {
    auto stage = cast<DictionaryAttr>(entry);
    auto number = [&](StringRef key) {
      return stage.getAs<IntegerAttr>(key).getInt();
    };
    choices.push_back(
        Object{{"stage", number("stage")},
               {"layer", stage.getAs<StringAttr>("layer").getValue()},
               {"forward_runs", number("forward_runs")},
               {"keeps_input", stage.getAs<BoolAttr>("keeps_input").getValue()},
               {"keeps", names(stage.getAs<ArrayAttr>("keeps"))},
               {"offloads", names(stage.getAs<ArrayAttr>("offloads"))},
               {"repeats", names(stage.getAs<ArrayAttr>("repeats"))},
               {"kept_bytes", number("kept_bytes")},
               {"offloaded_bytes", number("offloaded_bytes")},
               {"repeated_bytes", number("repeated_bytes")},
               {"repeated_ms",
                stage.getAs<FloatAttr>("repeated_ms").getValueAsDouble()}});
  }
  return choices;
}

/// What is kept as an encoding instead of its value.
static Array writeCompressed(ModuleOp module) {
  Array values;
  auto list = module->getAttrOfType<ArrayAttr>("kiln.compressed");
  for (Attribute entry : list ? list.getValue() : ArrayRef<Attribute>()) {
    auto fields = cast<DictionaryAttr>(entry);
    auto number = [&](StringRef name) {
      return fields.getAs<IntegerAttr>(name).getInt();
    };
    values.push_back(Object{
        {"value", fields.getAs<StringAttr>("value").getValue()},
        {"as", fields.getAs<StringAttr>("as").getValue()},
        {"tag", fields.getAs<BoolAttr>("lossy").getValue() ? "lossy" : "exact"},
        {"bytes", number("bytes")},
        {"encoded_bytes", number("encoded_bytes")}});
  }
  return values;
}

/// In the order that lifetimes count: a loop at both of its ends.
static Array writeCommandNames(rt::ProgramOp program) {
  Array names;
  bool inside = false;
  for (Operation *command : rt::commandsOf(program)) {
    bool loop = isa<rt::LoopOp>(command);
    inside ^= loop;
    names.push_back(!loop    ? rt::nameOf(command)
                    : inside ? "first micro-batch"
                             : "last micro-batch");
  }
  return names;
}

namespace {

/// Bytes of the copies between device and host.
struct CopiedBytes {
  int64_t out = 0, in = 0;
};

} // namespace

/// Those of one run.
static CopiedBytes countCopies(Block &block) {
  CopiedBytes copied;
  for (Operation &op : block) {
    if (auto copy = dyn_cast<rt::CopyStartOp>(op))
      (copy.isOut() ? copied.out : copied.in) +=
          static_cast<int64_t>(copy.getBytes());
    if (auto loop = dyn_cast<rt::LoopOp>(op)) {
      auto [out, in] = countCopies(loop.getBody().front());
      copied.out += out * static_cast<int64_t>(loop.getCount());
      copied.in += in * static_cast<int64_t>(loop.getCount());
    }
  }
  return copied;
}

/// Live bytes per class at the command with the most of them, and totals.
Object kiln::writePlan(ModuleOp module, const BuildRecord &record) {
  auto arena = *module.getOps<rt::ArenaOp>().begin();
  Object byClass, declared, programs;
  Array buffers, commandNames;
  std::string worstName;
  int64_t worst = -1;
  CopiedBytes copied;
  for (rt::ProgramOp program : module.getOps<rt::ProgramOp>()) {
    if (program.getKind() == ProgramKind::Train)
      copied = countCopies(program.getBody().front());
    auto slots = program.getBody().front().getOps<rt::SlotOp>();
    int64_t height = arena.getStates(), hostHeight = arena.getHostStates();
    for (rt::SlotOp slot : slots) {
      int64_t &side = slot.getHost() ? hostHeight : height;
      side = std::max<int64_t>(side, slot.getOffset() + slot.getBytes());
    }
    std::vector<int64_t> live = rt::liveBytes(program);
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
    llvm::MapVector<StringRef, std::pair<int64_t, int64_t>> classes;
    for (StringRef name : {"parameter", "gradient", "optimizer", "activation",
                           "workspace", "communication"})
      classes[name] = {0, 0};
    buffers.clear();
    for (rt::SlotOp slot : slots) {
      buffers.push_back(slotObject(slot));
      if (slot.getHost())
        continue;
      auto &[atPeak, total] =
          classes[rt::stringifySlotClass(slot.getSlotClass())];
      total += slot.getBytes();
      if (slot.getState() || (static_cast<int64_t>(slot.getFirst()) <= at &&
                              at <= static_cast<int64_t>(slot.getLast())))
        atPeak += slot.getBytes();
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
              {"copied_out_bytes_per_step", copied.out},
              {"copied_in_bytes_per_step", copied.in},
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
              {"buffers", std::move(buffers)}};
  if (copied.out + copied.in > 0)
    plan["link"] =
        Object{{"out_bytes_per_second", record.plannedOutBytesPerSecond},
               {"in_bytes_per_second", record.plannedInBytesPerSecond}};
  if (!record.lossy.empty())
    plan["lossy"] = record.lossy;
  if (Array compressed = writeCompressed(module); !compressed.empty())
    plan["compressed"] = std::move(compressed);
  // What was asked of the planner, and what it started from.
  if (auto planned = module->getAttrOfType<DictionaryAttr>("kiln.plan")) {
    if (auto budget = planned.getAs<IntegerAttr>("budget"))
      plan["budget_bytes"] = budget.getInt();
    if (auto budget = planned.getAs<IntegerAttr>("host_budget"))
      plan["host_budget_bytes"] = budget.getInt();
    plan["unplanned_step_ms"] =
        planned.getAs<FloatAttr>("unplanned_step_ms").getValueAsDouble();
    plan["unplanned_peak_bytes"] =
        planned.getAs<IntegerAttr>("unplanned_peak_bytes").getInt();
  }
  return plan;
}
