//===- ProgramWriter.cpp - The program description of an executable -*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Cpu/ProgramWriter.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;
using llvm::json::Array;
using llvm::json::Object;
using JsonValue = llvm::json::Value;

static StringRef typeName(Type element) {
  if (element.isF32())
    return "f32";
  if (element.isF64())
    return "f64";
  if (element.isInteger(8))
    return "i8";
  return element.isInteger(32) ? "i32" : "i64";
}

static Array shapeOf(RankedTensorType type) {
  Array shape;
  for (int64_t size : type.getShape())
    shape.push_back(size);
  return shape;
}

static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

/// What a command is called in traces and messages.
static std::string nameOf(Operation *op) {
  StringRef name = getLocationName(op->getLoc());
  return name.empty() ? op->getName().stripDialect().str() : name.str();
}

namespace {

class ProgramWriter {
public:
  ProgramWriter(ModuleOp module, const KernelIndex &kernels)
      : module(module), kernels(kernels) {}
  Object write(rt::ProgramOp program);

private:
  rt::SlotOp slotOf(mlir::Value slot) {
    return slot.getDefiningOp<rt::SlotOp>();
  }
  Array ref(mlir::Value slot, int64_t offset, int64_t stride) {
    return Array{slotOf(slot).getOffset() + offset, stride};
  }
  void writeCommands(Block &block, Array &commands);
  Object writeLaunch(rt::LaunchOp launch);
  Object writeGemm(rt::GemmOp gemm);

  ModuleOp module;
  const KernelIndex &kernels;
};

} // namespace

/// The order in which an emitter takes operands and results: row programs as
/// listed; a single op in the order of its operands, but an accumulation
/// operand, which is its result.
static SmallVector<unsigned> argumentOrder(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  unsigned operands = body.getNumArguments(),
           results = body.getTerminator()->getNumOperands();
  SmallVector<unsigned> order;
  if (kernel.getFamily() == Family::Row) {
    for (unsigned i = 0; i < operands; ++i)
      order.push_back(i);
  } else {
    Operation &op = body.front();
    int64_t tied = cast<DispatchableOpInterface>(op).getTiedOperand(0);
    for (auto [i, operand] : llvm::enumerate(op.getOperands()))
      if (static_cast<int64_t>(i) != tied)
        order.push_back(cast<BlockArgument>(operand).getArgNumber());
  }
  for (unsigned i = 0; i < results; ++i)
    order.push_back(operands + i);
  return order;
}

/// Floating point operations and bytes moved by a kernel, for traces.
static std::pair<int64_t, int64_t> costOf(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  int64_t flops = 0, bytes = 0;
  for (Operation &op : body.without_terminator())
    if (auto dispatchable = dyn_cast<DispatchableOpInterface>(op))
      flops += dispatchable.getFlops();
  for (Type type : body.getArgumentTypes())
    bytes += bytesOf(cast<RankedTensorType>(type));
  for (mlir::Value value : body.getTerminator()->getOperands())
    bytes += bytesOf(cast<RankedTensorType>(value.getType()));
  return {flops, bytes};
}

Object ProgramWriter::writeLaunch(rt::LaunchOp launch) {
  const TableEntry &entry = kernels.at(launch.getKernel());
  auto kernel = module.lookupSymbol<rt::KernelOp>(launch.getKernel());
  unsigned operands = kernel.getBody().front().getNumArguments();
  Array args, writes, immediates;
  for (auto [position, i] : llvm::enumerate(argumentOrder(kernel))) {
    args.push_back(ref(launch.getSlots()[i], launch.getOffsets()[i],
                       launch.getStrides()[i]));
    if (i >= operands)
      writes.push_back(static_cast<int64_t>(position));
  }
  for (int64_t immediate : launch.getImmediates())
    immediates.push_back(Array{immediate, launch.getAccumulates() ? 1 : 0});
  auto [flops, bytes] = costOf(kernel);
  Object command{{"op", "launch"},
                 {"name", nameOf(launch)},
                 {"kernel", entry.index},
                 {"args", std::move(args)},
                 {"writes", std::move(writes)},
                 {"imm", std::move(immediates)},
                 {"units", entry.launch.units},
                 {"grain", entry.launch.grain},
                 {"flops", flops},
                 {"bytes", bytes},
                 {"scratch", nullptr}};
  if (launch.getScratch())
    command["scratch"] = Array{
        slotOf(launch.getScratch()).getOffset(),
        static_cast<int64_t>(llvm::alignTo(entry.launch.scratchBytes, 64))};
  return command;
}

Object ProgramWriter::writeGemm(rt::GemmOp gemm) {
  auto matrix = [&](mlir::Value slot, unsigned i) {
    return Object{
        {"ref", ref(slot, gemm.getOffsets()[i], gemm.getStrides()[i])},
        {"ld", gemm.getLead()[i]},
        {"batch_stride", gemm.getBatchStrides()[i]}};
  };
  Object a = matrix(gemm.getA(), 0), b = matrix(gemm.getB(), 1),
         c = matrix(gemm.getC(), 2);
  a["trans"] = gemm.getTransA();
  b["trans"] = gemm.getTransB();
  int64_t m = gemm.getM(), n = gemm.getN(), k = gemm.getK(),
          batch = gemm.getBatch();
  return Object{{"op", "gemm"},
                {"name", nameOf(gemm)},
                {"dtype", typeName(gemm.getElement())},
                {"m", m},
                {"n", n},
                {"k", k},
                {"batch", batch},
                {"a", std::move(a)},
                {"b", std::move(b)},
                {"c", std::move(c)},
                {"beta", gemm.getBeta() == 2
                             ? JsonValue("first")
                             : JsonValue(static_cast<int64_t>(gemm.getBeta()))},
                {"grid", Array{gemm.getGrid()[0], gemm.getGrid()[1]}},
                {"flops", 2 * m * n * k * batch},
                {"epilogue", nullptr}};
}

void ProgramWriter::writeCommands(Block &block, Array &commands) {
  for (Operation &op : block) {
    if (auto launch = dyn_cast<rt::LaunchOp>(op)) {
      commands.push_back(writeLaunch(launch));
    } else if (auto gemm = dyn_cast<rt::GemmOp>(op)) {
      commands.push_back(writeGemm(gemm));
    } else if (auto fill = dyn_cast<rt::FillOp>(op)) {
      commands.push_back(
          Object{{"op", "fill"},
                 {"name", nameOf(fill)},
                 {"ref", ref(fill.getSlot(), fill.getOffset(), 0)},
                 {"bytes", static_cast<int64_t>(fill.getBytes())}});
    } else if (auto copy = dyn_cast<rt::CopyOp>(op)) {
      commands.push_back(Object{
          {"op", "copy"},
          {"name", nameOf(copy)},
          {"from",
           ref(copy.getFrom(), copy.getOffsets()[0], copy.getStrides()[0])},
          {"to", ref(copy.getTo(), copy.getOffsets()[1], copy.getStrides()[1])},
          {"bytes", static_cast<int64_t>(copy.getBytes())}});
    } else if (auto loop = dyn_cast<rt::LoopOp>(op)) {
      commands.push_back(
          Object{{"op", "loop_begin"},
                 {"count", static_cast<int64_t>(loop.getCount())}});
      writeCommands(loop.getBody().front(), commands);
      commands.push_back(Object{{"op", "loop_end"}});
    }
  }
}

static Object slotObject(rt::SlotOp slot) {
  return Object{{"name", slot.getName()},
                {"class", slot.getSlotClass()},
                {"offset", static_cast<int64_t>(slot.getOffset())},
                {"bytes", static_cast<int64_t>(slot.getBytes())},
                {"alignment", 64},
                {"first", static_cast<int64_t>(slot.getFirst())},
                {"last", static_cast<int64_t>(slot.getLast())},
                {"why", slot.getWhy().value_or("")}};
}

Object ProgramWriter::write(rt::ProgramOp program) {
  Array inputs, outputs, slots, commands;
  Block &block = program.getBody().front();
  auto boundary = [&](auto op) {
    auto type = cast<RankedTensorType>(op.getType());
    return Object{
        {"name", op.getName()},
        {"dtype", typeName(type.getElementType())},
        {"shape", shapeOf(type)},
        {"offset", static_cast<int64_t>(slotOf(op.getSlot()).getOffset() +
                                        op.getOffset())}};
  };
  for (Operation &op : block) {
    if (auto input = dyn_cast<rt::InputOp>(op))
      inputs.push_back(boundary(input));
    else if (auto output = dyn_cast<rt::OutputOp>(op))
      outputs.push_back(boundary(output));
    else if (auto slot = dyn_cast<rt::SlotOp>(op))
      slots.push_back(slotObject(slot));
  }
  writeCommands(block, commands);
  return Object{{"inputs", std::move(inputs)},
                {"outputs", std::move(outputs)},
                {"commands", std::move(commands)},
                {"slots", std::move(slots)}};
}

static Object writeInit(Attribute init) {
  if (auto normal = dyn_cast<NormalAttr>(init))
    return Object{{"kind", "normal"},
                  {"mean", normal.getMean().getValueAsDouble()},
                  {"stddev", normal.getStddev().getValueAsDouble()}};
  if (auto uniform = dyn_cast<UniformAttr>(init))
    return Object{{"kind", "uniform"},
                  {"low", uniform.getLow().getValueAsDouble()},
                  {"high", uniform.getHigh().getValueAsDouble()}};
  if (auto table = dyn_cast<RopeTableAttr>(init)) {
    Array frequencies;
    for (double frequency : table.getInvFreq().asArrayRef())
      frequencies.push_back(frequency);
    return Object{{"kind", table.getSine() ? "rope_sin" : "rope_cos"},
                  {"inv_freq", std::move(frequencies)},
                  {"scale", table.getScale().getValueAsDouble()}};
  }
  return Object{{"kind", "constant"},
                {"value", cast<SplatAttr>(init).getValue().getValueAsDouble()}};
}

static Array writeStates(ModuleOp module) {
  llvm::StringMap<int64_t> offsets;
  module.walk([&](rt::SlotOp slot) {
    if (slot.getState())
      offsets[*slot.getState()] = slot.getOffset();
  });
  Array states;
  for (StateOp state : module.getOps<StateOp>()) {
    auto type = state.getTensorType();
    Array aliases;
    if (auto names = state.getAliases())
      for (Attribute alias : *names)
        aliases.push_back(cast<StringAttr>(alias).getValue());
    Object object{
        {"name", state.getSymName()},
        {"source_name", state.getSource().value_or(state.getSymName())},
        {"aliases", std::move(aliases)},
        {"role", stringifyRole(state.getRole())},
        {"of", nullptr},
        {"dtype", typeName(type.getElementType())},
        {"shape", shapeOf(type)},
        {"offset", offsets.lookup(state.getSymName())},
        {"bytes", bytesOf(type)},
        {"trainable", state.isTrainable()},
        {"init", writeInit(state.getInit())}};
    if (state.getOf()) {
      object["of"] = *state.getOf();
      object["slot"] = *state.getSlot();
    }
    states.push_back(std::move(object));
  }
  return states;
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
    choices.push_back(Object{
        {"stage", stage.getAs<IntegerAttr>("stage").getInt()},
        {"layer", stage.getAs<StringAttr>("layer").getValue()},
        {"forward_runs", stage.getAs<IntegerAttr>("forward_runs").getInt()},
        {"keeps_input", stage.getAs<BoolAttr>("keeps_input").getValue()},
        {"keeps", names(stage.getAs<ArrayAttr>("keeps"))},
        {"repeats", names(stage.getAs<ArrayAttr>("repeats"))}});
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
static void writeCommandNames(Block &block, Array &names) {
  for (Operation &op : block) {
    if (auto loop = dyn_cast<rt::LoopOp>(op)) {
      names.push_back("first micro-batch");
      writeCommandNames(loop.getBody().front(), names);
      names.push_back("last micro-batch");
    } else if (isa<rt::LaunchOp, rt::GemmOp, rt::FillOp, rt::CopyOp>(op)) {
      names.push_back(nameOf(&op));
    }
  }
}

/// Live bytes per class at the command with the most of them, and totals.
Object cpu::writePlan(ModuleOp module, const BuildRecord &record) {
  auto arena = *module.getOps<rt::ArenaOp>().begin();
  Object byClass, declared, programs;
  Array buffers, commandNames;
  std::string worstName;
  int64_t worst = -1;
  for (rt::ProgramOp program : module.getOps<rt::ProgramOp>()) {
    SmallVector<rt::SlotOp> slots(
        program.getBody().front().getOps<rt::SlotOp>());
    int64_t commands = 0;
    for (rt::SlotOp slot : slots)
      commands = std::max(commands, static_cast<int64_t>(slot.getLast()) + 1);
    std::vector<int64_t> change(commands + 1, 0);
    int64_t height = arena.getStates();
    for (rt::SlotOp slot : slots) {
      height = std::max<int64_t>(height, slot.getOffset() + slot.getBytes());
      if (slot.getState())
        continue;
      int64_t bytes = llvm::alignTo(slot.getBytes(), 64);
      change[slot.getFirst()] += bytes;
      change[slot.getLast() + 1] -= bytes;
    }
    int64_t live = 0, most = 0, at = 0;
    for (int64_t i = 0; i < commands; ++i) {
      live += change[i];
      if (live > most) {
        most = live;
        at = i;
      }
    }
    programs[program.getSymName()] = Object{{"height", height},
                                            {"max_live_bytes", most},
                                            {"peak_command", at},
                                            {"commands", commands}};
    if (height <= worst)
      continue;
    worst = height;
    worstName = program.getSymName().str();
    commandNames.clear();
    writeCommandNames(program.getBody().front(), commandNames);
    llvm::MapVector<StringRef, std::pair<int64_t, int64_t>> classes;
    for (StringRef name : {"parameter", "gradient", "optimizer", "activation",
                           "workspace", "communication"})
      classes[name] = {0, 0};
    buffers.clear();
    for (rt::SlotOp slot : slots) {
      auto &[atPeak, total] = classes[slot.getSlotClass()];
      total += slot.getBytes();
      if (slot.getState() || (static_cast<int64_t>(slot.getFirst()) <= at &&
                              at <= static_cast<int64_t>(slot.getLast())))
        atPeak += slot.getBytes();
      buffers.push_back(slotObject(slot));
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
              {"host_arena_bytes", 0},
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
  if (!record.lossy.empty())
    plan["lossy"] = record.lossy;
  if (Array compressed = writeCompressed(module); !compressed.empty())
    plan["compressed"] = std::move(compressed);
  // What was asked of the planner, and what it started from.
  if (auto planned = module->getAttrOfType<DictionaryAttr>("kiln.plan")) {
    plan["budget_bytes"] = planned.getAs<IntegerAttr>("budget").getInt();
    plan["unplanned_step_ms"] =
        planned.getAs<FloatAttr>("unplanned_step_ms").getValueAsDouble();
    plan["unplanned_peak_bytes"] =
        planned.getAs<IntegerAttr>("unplanned_peak_bytes").getInt();
  }
  return plan;
}

Object cpu::writeProgram(ModuleOp module, const KernelIndex &kernels,
                         const BuildRecord &record) {
  auto arena = *module.getOps<rt::ArenaOp>().begin();
  Object model{{"name", "model"}, {"type", "mlir"}, {"has_weights", false}};
  if (auto attrs = module->getAttrOfType<DictionaryAttr>("kiln.model"))
    for (NamedAttribute attr : attrs) {
      StringRef key = attr.getName().getValue();
      if (auto text = dyn_cast<StringAttr>(attr.getValue()))
        model[key] = text.getValue();
      else if (auto flag = dyn_cast<BoolAttr>(attr.getValue()))
        model[key] = flag.getValue();
      else if (auto number = dyn_cast<IntegerAttr>(attr.getValue()))
        model[key] = number.getInt();
    }
  model["batch"] = record.batch;
  Array files;
  for (auto &[name, contents] : record.files) {
    if (llvm::json::isUTF8(contents))
      files.push_back(Object{{"name", name}, {"text", contents}});
    else
      files.push_back(
          Object{{"name", name}, {"base64", llvm::encodeBase64(contents)}});
  }
  model["files"] = std::move(files);

  Array features;
  for (const std::string &feature : record.processor.features)
    features.push_back(feature);
  Object programs;
  ProgramWriter writer(module, kernels);
  for (rt::ProgramOp program : module.getOps<rt::ProgramOp>())
    programs[program.getSymName()] = writer.write(program);
  // The commands themselves have their names.
  Object plan = writePlan(module, record);
  plan.erase("command_names");

  return Object{
      {"format", 1},
      {"kiln", record.version},
      {"model", std::move(model)},
      {"options", Object{{"optimizer", record.optimizer},
                         {"lossy", record.lossy},
                         {"precision", record.precision},
                         {"microbatches", record.microbatches},
                         {"clip", record.clip},
                         {"eval", record.eval},
                         {"max_threads", record.maxThreads},
                         {"dropout", record.dropout},
                         {"target", "cpu"},
                         {"command_line", record.commandLine}}},
      {"target", Object{{"cpu", record.processor.name},
                        {"features", std::move(features)},
                        {"blas", "openblas"},
                        {"machine", record.machineHash}}},
      {"arena", Object{{"bytes", static_cast<int64_t>(arena.getHeight())},
                       {"state_bytes", static_cast<int64_t>(arena.getStates())},
                       {"host_bytes", 0}}},
      {"states", writeStates(module)},
      {"programs", std::move(programs)},
      {"plan", std::move(plan)}};
}
