//===- CommandWriter.cpp - Writes the programs of a description -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandWriter.h"

#include "kiln/Target/Common/KernelShapes.h"
#include "kiln/Target/Common/LaunchGroups.h"
#include "kiln/Target/Interface/TargetBackend.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;
using llvm::json::Array;
using llvm::json::Object;
using JsonValue = llvm::json::Value;

namespace {

class CommandWriter {
public:
  CommandWriter(ModuleOp module, const TargetBackend &target,
                const KernelIndex &kernels)
      : module(module), target(target), kernels(kernels) {}
  Object write(rt::ProgramOp program);

private:
  static Array ref(rt::ViewOp view) {
    rt::SlotOp slot = view.getSlotOp();
    Array ref{view.getAddress(), static_cast<int64_t>(view.getStride())};
    if (slot.getRing())
      ref.push_back(slot.getRingStride());
    if (slot.getMemory() == MemorySpace::Host)
      ref.push_back("host");
    return ref;
  }
  static Array ref(mlir::Value place) { return ref(rt::viewOf(place)); }
  template <typename Range> Array writeCommands(Range &&ops);
  void writeSegments(Block &block, Array &segments, Array &order);
  Object writeLaunch(rt::LaunchOp launch);
  Object writeGemm(rt::GemmOp gemm);
  Object writeCopy(rt::CopyOp copy);
  Object writeTransfer(rt::BeginOp begin);
  Object writeCollective(rt::BeginOp begin);
  Object writeWait(rt::WaitOp wait);
  Object writeEpilogue(rt::GemmOp gemm);
  JsonValue tokenNumber(mlir::Value token);

  ModuleOp module;
  const TargetBackend &target;
  const KernelIndex &kernels;
  /// The number of each async token in the program file.
  DenseMap<mlir::Value, int64_t> tokens;

  int64_t nextToken = 0;
  int64_t ringSlots = 1; ///< Maximum number of micro-batches in flight.
};

} // namespace

/// Returns the number of floating-point operations of a kernel and the number
/// of bytes that the kernel accesses. Traces report both numbers.
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

/// Returns the element type of the views of a slot, or a null type if they have
/// different element types. If the slot of a state has no views, returns the
/// element type of the state.
static Type elementOf(rt::SlotOp slot) {
  Type element;
  for (Operation *user : slot->getUsers()) {
    auto view = dyn_cast<rt::ViewOp>(user);
    if (!view)
      continue;
    if (element && element != view.getElementType())
      return Type();
    element = view.getElementType();
  }
  if (!element && slot.getState())
    element =
        SymbolTable::lookupNearestSymbolFrom<StateOp>(slot, slot.getStateAttr())
            .getTensorType()
            .getElementType();
  return element;
}

static Object writeSlot(rt::SlotOp slot, const TargetBackend &target) {
  Object object = slotObject(slot, target);
  if (Type element = elementOf(slot))
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

static Array writeImmediates(ArrayRef<LaunchImmediate> immediates) {
  Array array;
  for (const LaunchImmediate &immediate : immediates)
    array.push_back(Array{immediate.value, immediate.afterFirst});
  return array;
}

static JsonValue writeBeta(rt::Accumulation accumulate) {
  switch (accumulate) {
  case rt::Accumulation::Overwrite:
    return 0;
  case rt::Accumulation::Add:
    return 1;
  case rt::Accumulation::AddAfterFirst:
    return "first";
  }
  llvm_unreachable("unknown accumulation");
}

Object CommandWriter::writeLaunch(rt::LaunchOp launch) {
  const TableEntry &entry = kernels.of(launch);
  auto kernel = module.lookupSymbol<rt::KernelOp>(launch.getKernel());
  auto views = llvm::map_to_vector(launch.getPlaces(), rt::viewOf);
  Array args, writes, extents;
  for (auto [position, i] : llvm::enumerate(argumentOrder(kernel))) {
    args.push_back(ref(views[i]));
    extents.push_back(views[i].getExtent());
    if (i >= launch.getReads().size())
      writes.push_back(static_cast<int64_t>(position));
  }
  auto [flops, bytes] = costOf(kernel);
  Object command{{"op", "launch"},
                 {"name", rt::nameOf(launch)},
                 {"kernel", entry.index},
                 {"args", std::move(args)},
                 {"writes", std::move(writes)},
                 {"imm", writeImmediates(immediatesOf(launch))},
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
  if (target.getLaunchRules().overlap)
    command["extents"] = std::move(extents);
  if (std::optional<VendorAttention> attention =
          target.getLibraryAttention(kernel))
    command["library"] =
        writeAttention(*attention, rt::slotOf(launch.getScratch()));
  else if (launch.getScratch())
    command["scratch"] =
        Array{rt::slotOf(launch.getScratch()).getOffset(),
              static_cast<int64_t>(llvm::alignTo(
                  entry.scratchBytes,
                  target.getAlignment(rt::SlotClass::Workspace)))};
  return command;
}

Object CommandWriter::writeEpilogue(rt::GemmOp gemm) {
  Array args{ref(gemm.getC())}, writes;
  for (mlir::Value place : gemm.getEpilogueReads())
    args.push_back(ref(place));
  for (mlir::Value place : gemm.getEpilogueWrites()) {
    writes.push_back(static_cast<int64_t>(args.size()));
    args.push_back(ref(place));
  }
  return Object{
      {"kernel",
       kernels.inMemory[MemorySpace::Device].at(*gemm.getEpilogue()).index},
      {"args", std::move(args)},
      {"writes", std::move(writes)},
      {"imm", writeImmediates(immediatesOf(gemm))},
      {"scratch", nullptr}};
}

Object CommandWriter::writeGemm(rt::GemmOp gemm) {
  auto matrix = [&](unsigned i) {
    return Object{{"ref", ref(gemm.getMatrix(i))},
                  {"ld", gemm.getLead(i)},
                  {"batch_stride", gemm.getBatchStride(i)}};
  };
  Object a = matrix(0), b = matrix(1), c = matrix(2);
  a["trans"] = gemm.getTransA();
  b["trans"] = gemm.getTransB();
  int64_t m = gemm.getM(), n = gemm.getN(), k = gemm.getK(),
          batch = gemm.getBatch();
  JsonValue epilogue = nullptr, workspace = nullptr;
  if (gemm.getEpilogue())
    epilogue = writeEpilogue(gemm);
  if (gemm.getScratch()) {
    rt::SlotOp slot = rt::slotOf(gemm.getScratch());
    workspace = Array{slot.getOffset(), slot.getBytes()};
  }
  JsonValue kernel = nullptr, library = nullptr;
  if (gemm.getKernel())
    kernel = *gemm.getKernel();
  if (gemm.getLibrary()) {
    Object object{{"epilogue", *gemm.getLibrary()}};
    for (auto [key, place] :
         {std::pair("bias", gemm.getBias()), {"aux", gemm.getAux()}})
      if (place)
        object[key] = ref(place);
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
                {"beta", writeBeta(gemm.getAccumulate())},
                {"grid", Array{gemm.getGrid()[0], gemm.getGrid()[1]}},
                {"flops", 2 * m * n * k * batch},
                {"workspace", std::move(workspace)},
                {"epilogue", std::move(epilogue)},
                {"gemm_kernel", std::move(kernel)},
                {"library", std::move(library)}};
}

Object CommandWriter::writeCopy(rt::CopyOp copy) {
  Object object{{"op", "copy"},
                {"name", rt::nameOf(copy)},
                {"from", ref(copy.getFrom())},
                {"to", ref(copy.getTo())},
                {"bytes", copy.getBytes()}};
  if (copy.getAxis()) {
    object["axis"] = *copy.getAxis();
    object["whole_bytes"] = rt::viewOf(copy.getFrom()).getExtent();
  }
  return object;
}

Object CommandWriter::writeCollective(rt::BeginOp begin) {
  Array wholes, counts, shards, shardCounts;
  auto add = [&](mlir::ValueRange places, Array &refs, Array &numbers) {
    for (mlir::Value place : places) {
      refs.push_back(ref(place));
      numbers.push_back(rt::viewOf(place).getTensorType().getNumElements());
    }
  };
  bool gathers = begin.getKind() == rt::TransferKind::AllGather;
  add(gathers ? begin.getWrites() : begin.getReads(), wholes, counts);
  Type element = rt::viewOf(begin.getWrites().front()).getElementType();
  Object object{{"op", rt::stringifyTransferKind(begin.getKind())},
                {"name", rt::nameOf(begin)},
                {"axis", *begin.getAxis()},
                {"dtype", typeName(element)},
                {"data", std::move(wholes)},
                {"counts", std::move(counts)},
                {"token", tokenNumber(begin.getToken())}};
  if (begin.getKind() == rt::TransferKind::AllReduce)
    return object;
  add(gathers ? begin.getReads()
              : begin.getWrites().drop_front(begin.getReads().size()),
      shards, shardCounts);
  object["shards"] = std::move(shards);
  object["shard_counts"] = std::move(shardCounts);
  if (std::optional<ArrayRef<int64_t>> owners = begin.getOwners())
    object["owners"] = Array(*owners);
  return object;
}

Object CommandWriter::writeTransfer(rt::BeginOp begin) {
  if (rt::collectiveOf(begin.getKind()))
    return writeCollective(begin);
  return Object{
      {"op", "copy_start"},           {"name", rt::nameOf(begin)},
      {"from", ref(begin.getFrom())}, {"to", ref(begin.getTo())},
      {"bytes", begin.getBytes()},    {"token", tokenNumber(begin.getToken())}};
}

Object CommandWriter::writeWait(rt::WaitOp wait) {
  Array queues;
  for (FlatSymbolRefAttr queue : wait.getQueues())
    queues.push_back(queue.getValue());
  return Object{{"op", "copy_wait"},
                {"name", rt::nameOf(wait)},
                {"token", tokenNumber(wait.getToken())},
                {"queues", std::move(queues)}};
}

/// Returns the number of a token. A token with a ring has one instance per
/// micro-batch in flight, and each instance has its own number. Such a token is
/// written as the first number and the difference between consecutive numbers.
JsonValue CommandWriter::tokenNumber(mlir::Value token) {
  bool hasRing = token.getDefiningOp<rt::TokenOp>().getRing();
  auto [found, isNew] = tokens.try_emplace(token, nextToken);
  if (isNew)
    nextToken += hasRing ? ringSlots : 1;
  if (hasRing)
    return Array{found->second, 1};
  return found->second;
}

/// Writes the queue of a command and the queues that the command waits for.
static void addQueues(rt::CommandOpInterface command, Object &object) {
  object["queue"] = command.getQueueAttr().getValue();
  ArrayAttr after = command.getAfterAttr();
  if (!after)
    return;
  Array names;
  for (auto queue : after.getAsRange<FlatSymbolRefAttr>())
    names.push_back(queue.getValue());
  object["after"] = std::move(names);
}

/// Writes the commands of `ops`, a range of the ops of a block.
template <typename Range> Array CommandWriter::writeCommands(Range &&ops) {
  Array commands;
  for (Operation &op : ops) {
    if (auto launch = dyn_cast<rt::LaunchOp>(op)) {
      commands.push_back(writeLaunch(launch));
    } else if (auto gemm = dyn_cast<rt::GemmOp>(op)) {
      commands.push_back(writeGemm(gemm));
    } else if (auto fill = dyn_cast<rt::FillOp>(op)) {
      commands.push_back(Object{{"op", "fill"},
                                {"name", rt::nameOf(fill)},
                                {"ref", ref(fill.getTo())},
                                {"bytes", fill.getBytes()}});
    } else if (auto copy = dyn_cast<rt::CopyOp>(op)) {
      commands.push_back(writeCopy(copy));
    } else if (auto begin = dyn_cast<rt::BeginOp>(op)) {
      commands.push_back(writeTransfer(begin));
    } else if (auto wait = dyn_cast<rt::WaitOp>(op)) {
      commands.push_back(writeWait(wait));
    }
    auto command = dyn_cast<rt::CommandOpInterface>(op);
    if (!command)
      continue;
    Object &object = *commands.back().getAsObject();
    if (!command.getAwaitedToken())
      addQueues(command, object);
    if (command.getWhen() != rt::When::Always)
      object["when"] = rt::stringifyWhen(command.getWhen());
    if (int64_t owner = rt::ownerOf(command); owner != kNoOwner)
      object["owner"] = owner;
  }
  return commands;
}

/// Writes the segments of a program and their order. A program without
/// micro-batches has one segment, `step`. A program with micro-batches has the
/// segments `begin`, `forward`, `backward` and `end`.
void CommandWriter::writeSegments(Block &block, Array &segments, Array &order) {
  auto addSegment = [&](StringRef name, Array commands) {
    segments.push_back(
        Object{{"name", name}, {"commands", std::move(commands)}});
  };
  auto all = block.getOps<rt::MicrobatchesOp>();
  if (all.empty()) {
    addSegment("step", writeCommands(block));
    order.push_back("step");
    return;
  }
  rt::MicrobatchesOp microbatches = *all.begin();
  auto slots = static_cast<int64_t>(microbatches.getSlots());
  ringSlots = slots;
  Block::iterator at(microbatches);
  addSegment("begin", writeCommands(llvm::make_range(block.begin(), at)));
  addSegment("forward", writeCommands(microbatches.getForward().front()));
  addSegment("backward", writeCommands(microbatches.getBackward().front()));
  addSegment("end",
             writeCommands(llvm::make_range(std::next(at), block.end())));
  order.push_back("begin");
  order.push_back(
      Object{{"forward", "forward"},
             {"backward", "backward"},
             {"microbatches", static_cast<int64_t>(microbatches.getCount())},
             {"slots", slots},
             {"order", microbatches.getSegmentOrder().text()}});
  order.push_back("end");
}

Object CommandWriter::write(rt::ProgramOp program) {
  Array inputs, outputs, slots, segments, order;
  tokens.clear();
  nextToken = 0;
  Block &block = program.getBody().front();
  auto boundary = [&](auto op) {
    RankedTensorType type = op.getTensorType();
    return Object{{"name", op.getName()},
                  {"dtype", typeName(type.getElementType())},
                  {"shape", shapeOf(type)},
                  {"offset", op.getView().getAddress()}};
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
      slots.push_back(writeSlot(slot, target));
  }
  writeSegments(block, segments, order);
  return Object{
      {"roles", Array{mainRole}},      {"inputs", std::move(inputs)},
      {"outputs", std::move(outputs)}, {"segments", std::move(segments)},
      {"order", std::move(order)},     {"slots", std::move(slots)}};
}

Object kiln::writePrograms(ModuleOp module, const TargetBackend &target,
                           const KernelIndex &kernels) {
  Object programs;
  CommandWriter writer(module, target, kernels);
  for (rt::ProgramOp program : module.getOps<rt::ProgramOp>())
    programs[getProgramName(program)] = writer.write(program);
  return programs;
}
