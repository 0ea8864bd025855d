//===- ModuleDescription.cpp - Description of a module for the driver -----===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills a Description from the ops and attributes of a module. A compiled
// executable contains the same Description.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Quantization.h"
#include "kiln/Dialect/Kiln/IR/TrainingFacts.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Interpreter/InterpreterEngine.h"
#include "kiln/Interpreter/TensorBytes.h"
#include "kiln/Support/Hash.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using kiln::runtime::AdapterPart;
using kiln::runtime::BuildInfo;
using kiln::runtime::Description;
using kiln::runtime::InitialValue;
using kiln::runtime::InputInfo;
using kiln::runtime::ModelInfo;
using kiln::runtime::ProgramInfo;
using kiln::runtime::StateInfo;
using kiln::runtime::StateRole;
using kiln::runtime::ValueInfo;

namespace kiln {

InitialValue initialValueOf(StateOp state) {
  InitialValue init;
  Attribute attribute = state.getInit();
  if (auto normal = dyn_cast<NormalAttr>(attribute)) {
    init.kind = InitialValue::Kind::Normal;
    init.mean = normal.getMean().getValueAsDouble();
    init.stddev = normal.getStddev().getValueAsDouble();
    init.zeroRow = normal.getZeroRow();
  } else if (auto uniform = dyn_cast<UniformAttr>(attribute)) {
    init.kind = InitialValue::Kind::Uniform;
    init.low = uniform.getLow().getValueAsDouble();
    init.high = uniform.getHigh().getValueAsDouble();
  } else if (auto table = dyn_cast<RopeTableAttr>(attribute)) {
    init.kind = table.getSine() ? InitialValue::Kind::RopeSin
                                : InitialValue::Kind::RopeCos;
    init.scale = table.getScale().getValueAsDouble();
    init.inverseFrequencies = table.getInvFreq().asArrayRef();
  } else if (isa<Nf4TableAttr>(attribute)) {
    init.kind = InitialValue::Kind::Nf4Table;
  } else {
    init.kind = InitialValue::Kind::Constant;
    init.value = cast<SplatAttr>(attribute).getValue().getValueAsDouble();
  }
  return init;
}

static StateRole roleOf(StateOp state) {
  switch (state.getRole()) {
  case Role::Parameter:
    return StateRole::Parameter;
  case Role::Buffer:
    return StateRole::Buffer;
  case Role::Constant:
    return StateRole::Constant;
  case Role::Optimizer:
    return StateRole::Optimizer;
  case Role::Mirror:
    return StateRole::Mirror;
  }
  llvm_unreachable("unknown role");
}

static void setType(ValueInfo &info, RankedTensorType type) {
  info.type = storedType(type);
  info.shape.assign(type.getShape().begin(), type.getShape().end());
}

static void setFact(InputInfo &info, InputAttr fact) {
  info.isData = fact && fact.getRole() == InputRole::Data;
  info.isBatched = fact && fact.getBatchDim();
}

static std::vector<std::string> namesIn(ArrayAttr attribute) {
  std::vector<std::string> names;
  if (attribute)
    for (auto name : attribute.getAsRange<StringAttr>())
      names.push_back(name.str());
  return names;
}

static StateInfo describeState(StateOp state) {
  StateInfo info;
  info.name = state.getSymName();
  setType(info, state.getTensorType());
  info.globalShape = state.getWholeType().getShape().vec();
  info.shard.assign(info.globalShape.size(), 0);
  RankedTensorType part = state.getPartType();
  for (ShardAttr shard = state.getShardAttr(); shard;
       shard = shard.getOuter()) {
    info.divisions.insert(info.divisions.begin(),
                          {shard.getAxis().str(), shard.getBlocks(),
                           part.getNumElements(), shard.getOwner()});
    part = shard.getType();
  }
  info.roles = {0};
  info.sourceName = state.getSource().value_or(state.getSymName());
  info.aliases = namesIn(state.getAliasesAttr());
  info.copies = namesIn(state.getCopiesAttr());
  info.role = roleOf(state);
  info.of = state.getOf().value_or("");
  info.slot = state.getSlot().value_or("");
  info.trainable = state.isTrainable();
  if (AdapterAttr adapter = state.getAdapterAttr())
    info.adapter = {adapter.getFactor() == Factor::A ? AdapterPart::Factor::A
                                                     : AdapterPart::Factor::B,
                    adapter.getBase().getValue().str(),
                    adapter.getTransposed()};
  if (QuantizedAttr quantized = state.getQuantizedAttr()) {
    RankedTensorType weight = quantized.getType();
    info.quantized = {elementTypeOf(weight),
                      {weight.getDimSize(0), weight.getDimSize(1)},
                      layoutOf(quantized)};
  }
  info.init = initialValueOf(state);
  return info;
}

static std::string outputName(ProgramOp program, unsigned index) {
  if (auto state = program.getResultAttrOfType<FlatSymbolRefAttr>(
          index, "kiln.gradient"))
    return ("gradient:" + state.getValue()).str();
  StringRef name = program.getOutputName(index);
  return name.empty() ? "result" + std::to_string(index) : name.str();
}

static ProgramInfo describeProgram(ProgramOp program,
                                   const Interpreter &interpreter) {
  ProgramInfo info;
  info.name = getProgramName(program);
  info.roles = {0};
  for (auto [i, type] : llvm::enumerate(program.getArgumentTypes())) {
    InputInfo &input = info.inputs.emplace_back();
    setFact(input, program.getInputFact(i));
    StringRef name = program.getInputName(i);
    input.name = name.empty() ? "input" + std::to_string(i) : name.str();
    setType(input, cast<RankedTensorType>(type));
  }
  for (auto [i, type] : llvm::enumerate(program.getResultTypes())) {
    ValueInfo &output = info.outputs.emplace_back();
    output.name = outputName(program, i);
    setType(output, interpreter.evaluationType(type));
  }
  program.walk([&](Operation *op) {
    info.communicates |= isa<CollectiveOpInterface, CollectiveStartOp>(op);
  });
  return info;
}

/// Describes a scheduled program.
static ProgramInfo describeProgram(rt::ProgramOp program) {
  ProgramInfo info;
  info.name = getProgramName(program);
  info.roles = {0};
  auto add = [](auto &list, auto op) {
    auto &value = list.emplace_back();
    value.name = op.getName();
    setType(value, op.getTensorType());
  };
  for (rt::InputOp input : program.getBody().front().getOps<rt::InputOp>()) {
    add(info.inputs, input);
    setFact(info.inputs.back(), input.getInputFact());
  }
  for (rt::OutputOp output : program.getBody().front().getOps<rt::OutputOp>())
    add(info.outputs, output);
  program.walk([&](rt::BeginOp begin) {
    info.communicates |= rt::collectiveOf(begin.getKind()).has_value();
  });
  return info;
}

/// Returns the description of the model in the attribute `kiln.model`.
static ModelInfo describeModel(ModuleOp module) {
  ModelInfo model;
  auto facts = module->getAttrOfType<DictionaryAttr>(kModelAttr);
  if (!facts)
    return model;
  if (auto name = facts.getAs<StringAttr>("name"))
    model.name = name.str();
  if (auto type = facts.getAs<StringAttr>("type"))
    model.type = type.str();
  auto number = [&](StringRef key, int64_t &value) {
    if (auto attribute = facts.getAs<IntegerAttr>(key))
      value = attribute.getInt();
  };
  number("vocab_size", model.vocabSize);
  number("batch", model.batch);
  number("sequence_length", model.sequenceLength);
  if (auto hasWeights = facts.getAs<BoolAttr>("has_weights"))
    model.hasWeights = hasWeights.getValue();
  model.unusedTensors = namesIn(facts.getAs<ArrayAttr>("unused_tensors"));
  return model;
}

/// Returns the names of the states that any program of the module writes. The
/// programs may be scheduled or not.
static llvm::StringSet<> writtenStates(ModuleOp module) {
  llvm::StringSet<> names;
  module.walk([&](WriteOp write) { names.insert(write.getState()); });
  module.walk([&](rt::CommandOpInterface command) {
    for (const rt::MemoryAccess &access : command.getAccesses())
      if (rt::SlotOp slot = rt::slotOf(access.slot);
          access.writes() && slot.getState())
        names.insert(*slot.getState());
  });
  return names;
}

/// Returns the grid of ranks in the attribute `kiln.mesh`.
static support::Mesh describeMesh(ModuleOp module) {
  support::Mesh mesh;
  if (auto axes = module->getAttrOfType<DictionaryAttr>(kMeshAttr))
    for (NamedAttribute axis : axes)
      mesh.axes.push_back(
          {axis.getName().str(), cast<IntegerAttr>(axis.getValue()).getInt()});
  return mesh;
}

/// Returns a hash of the text of the module, by which ranks compare their
/// modules.
static uint64_t hashOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return support::keyedHash(text, 0);
}

Description describeModule(ModuleOp module, const Interpreter &interpreter) {
  Description description;
  description.model = describeModel(module);
  description.mesh = describeMesh(module);
  if (description.ranks() > 1)
    description.hash = hashOf(module);
  if (auto steps = module->getAttrOfType<IntegerAttr>(kSyncEveryAttr))
    description.syncEvery = steps.getInt();
  description.training = deriveTrainingInfo(module);
  if (auto lora = module->getAttrOfType<StringAttr>(kLoraAttr))
    description.lora = *support::parseLoraOptions(lora.getValue());
  description.roles = {{"main", 1}};
  llvm::StringSet<> written = writtenStates(module);
  for (StateOp state : module.getOps<StateOp>()) {
    StateInfo &info = description.states.emplace_back(describeState(state));
    info.written = written.contains(info.name);
  }
  for (ProgramOp program : module.getOps<ProgramOp>())
    description.programs.push_back(describeProgram(program, interpreter));
  for (rt::ProgramOp program : module.getOps<rt::ProgramOp>())
    description.programs.push_back(describeProgram(program));

  BuildInfo &build = description.build;
  build.precision =
      interpreter.getEvalType() == EvalType::F64 ? "fp64" : "as declared";
  build.target = "interpreter";
  build.eval = description.findProgram("evaluate") != nullptr;
  build.clip = false;
  if (const ProgramInfo *train = description.findProgram("train"))
    for (const ValueInfo &input : train->inputs) {
      if (input.name == "tokens" && input.shape.size() == 2) {
        // The input contains the whole batch of a step. The attribute
        // `kiln.model` may contain the batch size of one micro-batch instead.
        description.model.batch = input.shape[0];
        description.model.sequenceLength = input.shape[1];
      }
      if (input.name == "clip")
        build.clip = true;
      if (input.name == "rng" && !input.shape.empty())
        build.microbatches = input.shape[0];
    }
  return description;
}

} // namespace kiln
