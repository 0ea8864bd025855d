//===- ProgramWriter.cpp - Writes the program description -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/ProgramWriter.h"

#include "CommandWriter.h"
#include "kiln/Dialect/Kiln/IR/TrainingFacts.h"
#include "kiln/Target/Interface/TargetBackend.h"

#include "llvm/Support/Base64.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;
using llvm::json::Array;
using llvm::json::Object;

/// Writes the axes of a mesh.
static Array writeMesh(DictionaryAttr mesh) {
  Array axes;
  for (NamedAttribute axis : mesh)
    axes.push_back(
        Object{{"name", axis.getName().getValue()},
               {"size", cast<IntegerAttr>(axis.getValue()).getInt()}});
  return axes;
}

static Object writeInit(Attribute init) {
  if (auto normal = dyn_cast<NormalAttr>(init)) {
    Object object{{"kind", "normal"},
                  {"mean", normal.getMean().getValueAsDouble()},
                  {"stddev", normal.getStddev().getValueAsDouble()}};
    if (std::optional<int64_t> row = normal.getZeroRow())
      object["zero_row"] = *row;
    return object;
  }
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
  if (isa<Nf4TableAttr>(init))
    return Object{{"kind", "nf4_table"}};
  return Object{{"kind", "constant"},
                {"value", cast<SplatAttr>(init).getValue().getValueAsDouble()}};
}

static Object writeQuantized(QuantizedAttr quantized) {
  RankedTensorType type = quantized.getType();
  Object object{{"encoding", stringifyQuantization(quantized.getEncoding())},
                {"dtype", typeName(type.getElementType())},
                {"shape", shapeOf(type)}};
  if (quantized.getEncoding() == Quantization::Int8) {
    object["block"] = quantized.getBlock();
    object["outliers"] = quantized.getOutliers();
    object["inputs"] = quantized.getInputs();
  }
  return object;
}

static Array writeNames(ArrayAttr names) {
  Array array;
  for (Attribute name : names ? names.getValue() : ArrayRef<Attribute>())
    array.push_back(cast<StringAttr>(name).getValue());
  return array;
}

static Array writeQueues(ModuleOp module) {
  Array queues;
  for (auto queue : module.getOps<rt::QueueOp>())
    queues.push_back(
        Object{{"name", queue.getSymName()},
               {"engine", rt::stringifyEngine(queue.getEngine())}});
  return queues;
}

/// A state may be a shard of a tensor that was divided several times. Writes
/// these divisions in the order in which they were applied.
static Array writeDivisions(StateOp state) {
  SmallVector<Object> divisions;
  RankedTensorType part = state.getPartType();
  for (ShardAttr shard = state.getShardAttr(); shard;
       shard = shard.getOuter()) {
    Object &division =
        divisions.emplace_back(Object{{"axis", shard.getAxis()},
                                      {"blocks", shard.getBlocks()},
                                      {"elements", part.getNumElements()}});
    if (shard.getOwner() != kNoOwner)
      division["owner"] = shard.getOwner();
    part = shard.getType();
  }
  Array ordered;
  for (Object &division : llvm::reverse(divisions))
    ordered.push_back(std::move(division));
  return ordered;
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
    Object object{
        {"name", state.getSymName()},
        {"source_name", state.getSource().value_or(state.getSymName())},
        {"aliases", writeNames(state.getAliasesAttr())},
        {"role", stringifyRole(state.getRole())},
        {"of", nullptr},
        {"dtype", typeName(type.getElementType())},
        {"shape", shapeOf(type)},
        {"global_shape", shapeOf(state.getWholeType())},
        {"shard", Array(std::vector<int64_t>(state.getWholeType().getRank()))},
        {"roles", Array{mainRole}},
        {"offset", offsets.lookup(state.getSymName())},
        {"bytes", bytesOf(type)},
        {"trainable", state.isTrainable()}};
    // A mirror is a copy of a parameter. The runtime initializes it from the
    // parameter, so it has no "init".
    if (state.getRole() != Role::Mirror)
      object["init"] = writeInit(state.getInit());
    if (state.getOf())
      object["of"] = *state.getOf();
    if (state.getSlot())
      object["slot"] = *state.getSlot();
    if (AdapterAttr adapter = state.getAdapterAttr())
      object["adapter"] =
          Object{{"factor", stringifyFactor(adapter.getFactor())},
                 {"of", adapter.getBase().getValue()},
                 {"transposed", adapter.getTransposed()}};
    if (QuantizedAttr quantized = state.getQuantizedAttr())
      object["quantized"] = writeQuantized(quantized);
    if (state.getShard())
      object["over"] = writeDivisions(state);
    if (ArrayAttr copies = state.getCopiesAttr())
      object["copies"] = writeNames(copies);
    if (memoryOf(state.getType()) == MemorySpace::Host)
      object["arena"] = "host";
    states.push_back(std::move(object));
  }
  return states;
}

static Object writeTraining(ModuleOp module) {
  TrainingInfo info = deriveTrainingInfo(module);
  Array updates, lossy;
  for (const UpdateRule &rule : info.updates) {
    Object options;
    for (auto &[name, value] : rule.options)
      options[name] = value;
    updates.push_back(Object{{"name", rule.optimizer},
                             {"options", std::move(options)},
                             {"decay", rule.decay}});
  }
  for (auto &[encoding, residuals] : info.lossy)
    lossy.push_back(Object{{"encoding", encoding}, {"residuals", residuals}});
  return Object{
      {"optimizer", std::move(updates)},
      {"dropout", Object{{"activations", Array(info.dropout)},
                         {"attention", Array(info.attentionDropout)}}},
      {"lossy", std::move(lossy)}};
}

Object kiln::writeProgram(ModuleOp module, const TargetBackend &target,
                          const KernelIndex &kernels,
                          const BuildRecord &record) {
  auto arena = *module.getOps<rt::ArenaOp>().begin();
  Object model{{"name", "model"}, {"type", "mlir"}, {"has_weights", false}};
  if (auto attrs = module->getAttrOfType<DictionaryAttr>(kModelAttr))
    for (NamedAttribute attr : attrs) {
      StringRef key = attr.getName().getValue();
      if (auto text = dyn_cast<StringAttr>(attr.getValue()))
        model[key] = text.getValue();
      else if (auto flag = dyn_cast<BoolAttr>(attr.getValue()))
        model[key] = flag.getValue();
      else if (auto number = dyn_cast<IntegerAttr>(attr.getValue()))
        model[key] = number.getInt();
      else if (key == "unused_tensors")
        model[key] = writeNames(cast<ArrayAttr>(attr.getValue()));
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
  // Omit the list of command names, because every command in `programs`
  // contains its name.
  Object plan = writePlan(module, target, record);
  plan.erase("command_names");

  Object program{
      {"format", 4},
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
                         {"target", target.getName()},
                         {"command_line", record.commandLine}}},
      {"training", writeTraining(module)},
      {"target", Object{{"kind", target.getName()},
                        {"cpu", record.processor.name},
                        {"features", std::move(features)},
                        {"blas", "openblas"},
                        {"machine", record.machineHash}}},
      {"arena",
       Object{
           {"bytes", static_cast<int64_t>(arena.getHeight())},
           {"state_bytes", static_cast<int64_t>(arena.getStates())},
           {"host_bytes", static_cast<int64_t>(arena.getHostHeight())},
           {"host_state_bytes", static_cast<int64_t>(arena.getHostStates())}}},
      {"roles", Array{Object{{"name", mainRole}, {"ranks", 1}}}},
      {"queues", writeQueues(module)},
      {"states", writeStates(module)},
      {"programs", writePrograms(module, target, kernels)},
      {"plan", std::move(plan)}};
  if (auto lora = module->getAttrOfType<StringAttr>(kLoraAttr))
    program["lora"] = lora.getValue();
  if (auto mesh = module->getAttrOfType<DictionaryAttr>(kMeshAttr))
    program["mesh"] = writeMesh(mesh);
  if (auto steps = module->getAttrOfType<IntegerAttr>(kSyncEveryAttr))
    program["sync_every"] = steps.getInt();
  if (record.networkBytesPerSecond > 0)
    program["network"] =
        Object{{"bytes_per_second", record.networkBytesPerSecond}};
  if (record.linkBytesPerSecond > 0)
    program["link"] =
        Object{{"out_bytes_per_second", record.linkBytesPerSecond},
               {"in_bytes_per_second", record.linkBytesPerSecond}};
  return program;
}
