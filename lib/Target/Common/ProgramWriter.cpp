//===- ProgramWriter.cpp - The description of an executable -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/ProgramWriter.h"

#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Dialect/Kiln/IR/Target.h"
#include "kiln/Dialect/Kiln/IR/TrainingFacts.h"
#include "kiln/Target/Common/AttentionLibrary.h"
#include "kiln/Target/Common/KernelShapes.h"
#include "kiln/Target/Common/LaunchGroups.h"
#include "kiln/Target/Common/SlotTypes.h"

#include "llvm/Support/Base64.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;
using llvm::json::Array;
using llvm::json::Object;
using JsonValue = llvm::json::Value;

static StringRef typeName(Type element) {
  return infoOf(elementTypeOf(element)).name;
}

static Array shapeOf(RankedTensorType type) {
  Array shape;
  for (int64_t size : type.getShape())
    shape.push_back(size);
  return shape;
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
    rt::SlotOp place = slotOf(slot);
    Array ref{place.getOffset() + offset, stride};
    if (place.getHost())
      ref.push_back("host");
    return ref;
  }
  void writeCommands(Block &block, Array &commands);
  Object writeLaunch(rt::LaunchOp launch);
  Object writeGemm(rt::GemmOp gemm);
  template <typename Op> Object writeCopy(Op copy, StringRef what);
  Object writeEpilogue(rt::GemmOp gemm);

  ModuleOp module;
  const KernelIndex &kernels;
  DenseMap<Operation *, int64_t> tokens; ///< of the program, by copy_start
};

} // namespace

/// Floating point operations and bytes moved by a kernel, for traces.
static std::pair<int64_t, int64_t> costOf(rt::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  int64_t flops = 0, bytes = 0;
  for (Operation &op : body.without_terminator())
    if (auto dispatchable = dyn_cast<DispatchableOpInterface>(op))
      flops += dispatchable.getFlops();
  for (Type type : body.getArgumentTypes())
    bytes += bytesOf(type);
  for (mlir::Value value : body.getTerminator()->getOperands())
    bytes += bytesOf(value.getType());
  return {flops, bytes};
}

int64_t kiln::getExtent(rt::KernelOp kernel, unsigned i) {
  Block &body = kernel.getBody().front();
  unsigned operands = body.getNumArguments();
  mlir::Value value = i < operands
                          ? mlir::Value(body.getArgument(i))
                          : body.getTerminator()->getOperand(i - operands);
  RankedTensorType type = tensorTypeOf(value);
  int64_t columns = getColumnCount(type), rows = getRowCount(type);
  int64_t rowStride = kernel.getRowStrides()[i];
  return elementBytes(type, (rows - 1) * rowStride + columns);
}

static Object writeSlot(rt::SlotOp slot, Type element) {
  Object object = slotObject(slot);
  if (element)
    object["dtype"] = typeName(element);
  return object;
}

static Object writeAttention(const VendorAttention &attention,
                             rt::SlotOp workspace) {
  Array strides;
  for (std::size_t i = 0; i < attention.matrices(); ++i)
    strides.push_back(attention.strides[i]);
  return Object{
      {"op", attention.isGradient ? "attention_grad" : "attention"},
      {"causal", attention.causal},
      {"sequences", attention.sequences},
      {"length", attention.length},
      {"heads", attention.heads},
      {"kv_heads", attention.kvHeads},
      {"head_dim", attention.headDim},
      {"strides", std::move(strides)},
      {"workspace", Array{workspace.getOffset(), workspace.getBytes()}}};
}

Object ProgramWriter::writeLaunch(rt::LaunchOp launch) {
  const TableEntry &entry = kernels.of(launch);
  auto kernel = module.lookupSymbol<rt::KernelOp>(launch.getKernel());
  unsigned operands = kernel.getBody().front().getNumArguments();
  Array args, writes, extents, immediates;
  for (auto [position, i] : llvm::enumerate(argumentOrder(kernel))) {
    args.push_back(ref(launch.getSlots()[i], launch.getOffsets()[i],
                       launch.getStrides()[i]));
    extents.push_back(getExtent(kernel, i));
    if (i >= operands)
      writes.push_back(static_cast<int64_t>(position));
  }
  for (int64_t immediate : launch.getImmediates())
    immediates.push_back(Array{immediate, launch.getAccumulates() ? 1 : 0});
  auto [flops, bytes] = costOf(kernel);
  Object command{{"op", "launch"},
                 {"name", rt::nameOf(launch)},
                 {"kernel", entry.index},
                 {"args", std::move(args)},
                 {"writes", std::move(writes)},
                 {"imm", std::move(immediates)},
                 {"units", entry.units},
                 {"grain", entry.grain},
                 {"flops", flops},
                 {"bytes", bytes},
                 {"scratch", nullptr}};
  if (entry.threads > 0) {
    command["threads"] = entry.threads;
    command["shared"] = entry.sharedBytes;
    if (entry.tableMembers > 0)
      command["members"] = entry.tableMembers;
    if (int64_t group = getGroupSize(launch); group > 1)
      command["group"] = group;
  }
  // The streams of a gpu run beside each other: what a launch touches matters.
  if (isGpu(targetOf(module)))
    command["extents"] = std::move(extents);
  if (std::optional<VendorAttention> attention = libraryAttentionOf(kernel))
    command["library"] =
        writeAttention(*attention, slotOf(launch.getScratch()));
  else if (launch.getScratch())
    command["scratch"] = Array{slotOf(launch.getScratch()).getOffset(),
                               static_cast<int64_t>(llvm::alignTo(
                                   entry.scratchBytes, abi::slotAlignment))};
  return command;
}

Object ProgramWriter::writeEpilogue(rt::GemmOp gemm) {
  auto kernel = module.lookupSymbol<rt::KernelOp>(*gemm.getEpilogue());
  int64_t operands = kernel.getBody().front().getNumArguments();
  Array args, writes, immediates;
  args.push_back(ref(gemm.getC(), gemm.getOffsets()[2], gemm.getStrides()[2]));
  for (auto [i, slot] : llvm::enumerate(gemm.getEpilogueSlots())) {
    if (auto position = static_cast<int64_t>(args.size()); position >= operands)
      writes.push_back(position);
    args.push_back(
        ref(slot, gemm.getOffsets()[3 + i], gemm.getStrides()[3 + i]));
  }
  ArrayRef<int64_t> values = *gemm.getImmediates();
  for (int64_t immediate : values)
    immediates.push_back(Array{immediate, 0});
  return Object{{"kernel", kernels.device.at(*gemm.getEpilogue()).index},
                {"args", std::move(args)},
                {"writes", std::move(writes)},
                {"imm", std::move(immediates)},
                {"scratch", nullptr}};
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
  JsonValue epilogue = nullptr, workspace = nullptr;
  if (gemm.getEpilogue())
    epilogue = writeEpilogue(gemm);
  if (gemm.getScratch()) {
    rt::SlotOp slot = slotOf(gemm.getScratch());
    workspace = Array{slot.getOffset(), slot.getBytes()};
  }
  JsonValue library = nullptr;
  if (gemm.getLibrary()) {
    Object object{{"epilogue", *gemm.getLibrary()}};
    unsigned place = 3;
    for (auto [key, slot] :
         {std::pair("bias", gemm.getBias()), {"aux", gemm.getAux()}})
      if (slot) {
        object[key] =
            ref(slot, gemm.getOffsets()[place], gemm.getStrides()[place]);
        ++place;
      }
    library = std::move(object);
  }
  return Object{{"op", "gemm"},
                {"name", rt::nameOf(gemm)},
                {"dtype", typeName(gemm.getElement())},
                {"result", typeName(gemm.getResultElement())},
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
                {"workspace", std::move(workspace)},
                {"epilogue", std::move(epilogue)},
                {"library", std::move(library)}};
}

template <typename Op>
Object ProgramWriter::writeCopy(Op copy, StringRef what) {
  return Object{
      {"op", what},
      {"name", rt::nameOf(copy)},
      {"from", ref(copy.getFrom(), copy.getOffsets()[0], copy.getStrides()[0])},
      {"to", ref(copy.getTo(), copy.getOffsets()[1], copy.getStrides()[1])},
      {"bytes", static_cast<int64_t>(copy.getBytes())}};
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
                 {"name", rt::nameOf(fill)},
                 {"ref", ref(fill.getSlot(), fill.getOffset(), 0)},
                 {"bytes", static_cast<int64_t>(fill.getBytes())}});
    } else if (auto copy = dyn_cast<rt::CopyOp>(op)) {
      commands.push_back(writeCopy(copy, "copy"));
    } else if (auto copy = dyn_cast<rt::CopyStartOp>(op)) {
      Object start = writeCopy(copy, "copy_start");
      auto token = static_cast<int64_t>(tokens.size());
      tokens[copy] = token;
      start["token"] = token;
      commands.push_back(std::move(start));
    } else if (auto wait = dyn_cast<rt::WaitOp>(op)) {
      commands.push_back(Object{{"op", "copy_wait"},
                                {"name", rt::nameOf(wait)},
                                {"token", tokens.lookup(wait.getStart())}});
    } else if (auto loop = dyn_cast<rt::LoopOp>(op)) {
      commands.push_back(
          Object{{"op", "loop_begin"},
                 {"count", static_cast<int64_t>(loop.getCount())}});
      writeCommands(loop.getBody().front(), commands);
      commands.push_back(Object{{"op", "loop_end"}});
    }
  }
}

Object ProgramWriter::write(rt::ProgramOp program) {
  Array inputs, outputs, slots, commands;
  SlotTypes types(program);
  tokens.clear();
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
    if (auto input = dyn_cast<rt::InputOp>(op)) {
      Object object = boundary(input);
      if (InputAttr fact = input.getFactAttr()) {
        object["role"] = "data";
        object["batched"] = fact.getBatchDim().has_value();
      }
      inputs.push_back(std::move(object));
    }
    if (auto output = dyn_cast<rt::OutputOp>(op))
      outputs.push_back(boundary(output));
    else if (auto slot = dyn_cast<rt::SlotOp>(op))
      slots.push_back(writeSlot(slot, types.of(slot)));
  }
  writeCommands(block, commands);
  return Object{{"inputs", std::move(inputs)},
                {"outputs", std::move(outputs)},
                {"commands", std::move(commands)},
                {"slots", std::move(slots)}};
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
  return Object{{"kind", "constant"},
                {"value", cast<SplatAttr>(init).getValue().getValueAsDouble()}};
}

static Array writeNames(ArrayAttr names) {
  Array array;
  for (Attribute name : names ? names.getValue() : ArrayRef<Attribute>())
    array.push_back(cast<StringAttr>(name).getValue());
  return array;
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
        {"offset", offsets.lookup(state.getSymName())},
        {"bytes", bytesOf(type)},
        {"trainable", state.isTrainable()}};
    // The runtime copies a mirror from its parameter.
    if (state.getRole() != Role::Mirror)
      object["init"] = writeInit(state.getInit());
    if (state.getOf())
      object["of"] = *state.getOf();
    if (state.getSlot())
      object["slot"] = *state.getSlot();
    if (ArrayAttr copies = state.getCopiesAttr())
      object["copies"] = writeNames(copies);
    if (state.getHost())
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

Object kiln::writeProgram(ModuleOp module, const KernelIndex &kernels,
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
  Object programs;
  ProgramWriter writer(module, kernels);
  for (rt::ProgramOp program : module.getOps<rt::ProgramOp>())
    programs[getProgramName(program)] = writer.write(program);
  // The commands themselves have their names.
  Object plan = writePlan(module, record);
  plan.erase("command_names");

  Object program{
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
                         {"target", record.target},
                         {"command_line", record.commandLine}}},
      {"training", writeTraining(module)},
      {"target", Object{{"kind", record.target},
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
      {"states", writeStates(module)},
      {"programs", std::move(programs)},
      {"plan", std::move(plan)}};
  if (record.linkBytesPerSecond > 0)
    program["link"] =
        Object{{"out_bytes_per_second", record.linkBytesPerSecond},
               {"in_bytes_per_second", record.linkBytesPerSecond}};
  return program;
}
