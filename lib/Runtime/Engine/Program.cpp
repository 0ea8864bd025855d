//===- Program.cpp - Reads and checks the program description -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/Program.h"

#include "DescriptionParser.h"
#include "kiln/Runtime/Files/CheckedMath.h"
#include "kiln/Runtime/Files/Json.h"
#include "kiln/Runtime/Files/Messages.h"

#include <array>
#include <set>

namespace kiln {

static constexpr std::array<std::pair<const char *, SlotClass>, 9> slotClasses =
    {{{"parameter", SlotClass::Parameter},
      {"optimizer", SlotClass::Optimizer},
      {"gradient", SlotClass::Gradient},
      {"activation", SlotClass::Activation},
      {"workspace", SlotClass::Workspace},
      {"communication", SlotClass::Communication},
      {"input", SlotClass::Input},
      {"output", SlotClass::Output},
      {"constant", SlotClass::Constant}}};

const char *commandKindName(Command::Kind kind) {
  switch (kind) {
  case Command::Kind::Launch:
    return "launch";
  case Command::Kind::MultiLaunch:
    return "multi_launch";
  case Command::Kind::Gemm:
    return "gemm";
  case Command::Kind::LoopBegin:
    return "loop_begin";
  case Command::Kind::LoopEnd:
    return "loop_end";
  case Command::Kind::Fill:
    return "fill";
  case Command::Kind::Copy:
    return "copy";
  }
  return "unknown";
}

const char *slotClassName(SlotClass slotClass) {
  for (auto &[name, value] : slotClasses)
    if (value == slotClass)
      return name;
  return "unknown";
}

namespace {

/// Reads commands and keeps what their checks need.
class ProgramReader {
public:
  ProgramReader(ProgramFile &file, int64_t kernelCount)
      : file_(file), kernelCount_(kernelCount) {}

  Program read(const Node &node, ProgramInfo &info);
  int64_t readPlace(const Node &node, int64_t bytes);

private:
  Command readCommand(const Node &node);
  void readKernel(const Node &node, Command &command);
  void readLaunchItem(const Node &node, LaunchItem &item);
  void readGemm(const Node &node, Command &command);
  void readTransfer(const Node &node, Command &command);
  GemmOperand readOperand(const Node &node, int64_t rows, int64_t columns,
                          const Command &command);
  Ref readRef(const Node &node, int64_t bytes);
  Slot readSlot(const Node &node);
  void readValues(const Node &node, std::vector<ValueInfo> &values,
                  std::vector<int64_t> &offsets);

  ProgramFile &file_;
  int64_t kernelCount_;
  bool inLoop_ = false;
  int64_t iterations_ = 1;
};

} // namespace

int64_t ProgramReader::readPlace(const Node &node, int64_t bytes) {
  int64_t offset = node.integer(0);
  std::optional<int64_t> end = checkedAdd<int64_t>(offset, bytes);
  if (end && *end <= file_.arenaBytes)
    return offset;
  node.fail("ends at byte " + (end ? std::to_string(*end) : "2^63 or more") +
            ", beyond the arena of " + std::to_string(file_.arenaBytes) +
            " bytes");
  return 0;
}

/// A reference to at least `bytes` bytes, in the arena in every iteration.
Ref ProgramReader::readRef(const Node &node, int64_t bytes) {
  Ref ref;
  if (node.size() != 2) {
    node.fail("is not [offset, stride]");
    return ref;
  }
  ref.offset = readPlace(node.element(0), bytes);
  Node stride = node.element(1);
  ref.stride = stride.integer();
  std::optional<int64_t> advance =
      checkedMul<int64_t>(ref.stride, iterations_ - 1);
  std::optional<int64_t> last =
      advance ? checkedAdd<int64_t>(ref.offset, *advance) : std::nullopt;
  std::optional<int64_t> end =
      last ? checkedAdd<int64_t>(*last, bytes) : std::nullopt;
  if (!end || *last < 0 || *end > file_.arenaBytes)
    stride.fail("leaves the arena in the last iteration of its loop");
  return ref;
}

void ProgramReader::readLaunchItem(const Node &node, LaunchItem &item) {
  Node args = node.at("args");
  for (std::size_t i = 0; i < args.size(); ++i)
    item.args.push_back(readRef(args.element(i), 0));
  if (std::optional<Node> writes = node.find("writes")) {
    for (std::size_t i = 0; i < writes->size(); ++i) {
      Node entry = writes->element(i);
      int64_t index = entry.integer(0);
      if (index >= int64_t(item.args.size()))
        entry.fail("is not the index of an argument");
      item.writes.push_back(index);
    }
  } else {
    for (std::size_t i = 0; i < item.args.size(); ++i)
      item.writes.push_back(int64_t(i));
  }
  Node immediates = node.at("imm");
  for (std::size_t i = 0; i < immediates.size(); ++i) {
    Node entry = immediates.element(i);
    if (entry.size() != 2) {
      entry.fail("is not [value, stride]");
      return;
    }
    item.immediates.push_back(
        {entry.element(0).integer(), entry.element(1).integer()});
  }
}

void ProgramReader::readKernel(const Node &node, Command &command) {
  Node kernel = node.at("kernel");
  command.kernel = kernel.integer(0);
  if (command.kernel >= kernelCount_)
    kernel.fail("is " + std::to_string(command.kernel) + ", but there are " +
                std::to_string(kernelCount_) + " kernels");
  std::optional<Node> scratch = node.find("scratch");
  if (!scratch)
    return;
  if (scratch->size() != 2) {
    scratch->fail("is not [offset, bytes per thread]");
    return;
  }
  command.scratch.bytesPerThread = scratch->element(1).integer(0);
  std::optional<int64_t> bytes = checkedMul<int64_t>(
      command.scratch.bytesPerThread, file_.description.build.maxThreads);
  if (!bytes) {
    scratch->fail("is too large");
    return;
  }
  command.scratch.offset = readPlace(scratch->element(0), *bytes);
  if (command.scratch.offset % 64 || command.scratch.bytesPerThread % 64)
    scratch->fail("is not a multiple of 64 bytes");
}

GemmOperand ProgramReader::readOperand(const Node &node, int64_t rows,
                                       int64_t columns,
                                       const Command &command) {
  GemmOperand operand;
  if (std::optional<Node> trans = node.find("trans"))
    operand.trans = trans->boolean();
  if (operand.trans)
    std::swap(rows, columns);
  Node ld = node.at("ld");
  operand.ld = ld.integer(columns);
  if (operand.ld > INT32_MAX) {
    ld.fail("is more than 2^31 - 1");
    return operand;
  }
  if (std::optional<Node> stride = node.find("batch_stride"))
    operand.batchStride = stride->integer(0);
  // Elements from the first to the last one, in all batches.
  int64_t elementBytes = tensorTypeBits(command.type) / 8;
  std::optional<int64_t> batches =
      checkedMul<int64_t>(operand.batchStride, command.batch - 1);
  std::optional<int64_t> elements =
      batches ? checkedAdd<int64_t>(*batches, (rows - 1) * operand.ld + columns)
              : std::nullopt;
  std::optional<int64_t> bytes =
      elements ? checkedMul<int64_t>(*elements, elementBytes) : std::nullopt;
  if (!bytes) {
    node.fail("is too large");
    return operand;
  }
  operand.ref = readRef(node.at("ref"), *bytes);
  return operand;
}

void ProgramReader::readGemm(const Node &node, Command &command) {
  Node dtype = node.at("dtype");
  std::string typeName = dtype.text();
  if (typeName == "f64")
    command.type = TensorType::F64;
  else if (typeName != "f32")
    dtype.fail("is " + inQuotes(typeName) + ", expected f32 or f64");
  auto extent = [&](const char *key) {
    Node field = node.at(key);
    int64_t value = field.integer(1);
    if (value > INT32_MAX)
      field.fail("is more than 2^31 - 1");
    return value > INT32_MAX || value < 1 ? 1 : value;
  };
  command.m = extent("m");
  command.n = extent("n");
  command.k = extent("k");
  if (node.find("batch"))
    command.batch = extent("batch");
  Node grid = node.at("grid");
  if (grid.size() != 2) {
    grid.fail("is not [tiles over m, tiles over n]");
    return;
  }
  command.gridM = grid.element(0).integer(1);
  command.gridN = grid.element(1).integer(1);
  if (command.gridM > command.m || command.gridN > command.n) {
    grid.fail("has more tiles than rows or columns");
    return;
  }
  command.a = readOperand(node.at("a"), command.m, command.k, command);
  command.b = readOperand(node.at("b"), command.k, command.n, command);
  Node c = node.at("c");
  if (std::optional<Node> trans = c.find("trans"))
    if (trans->boolean())
      trans->fail("is true, but a result is never transposed");
  command.c = readOperand(c, command.m, command.n, command);
  if (command.batch > 1 && command.c.batchStride == 0)
    c.fail("is the same for all products of the batch");
  Node beta = node.at("beta");
  if (beta.json() == "first")
    command.beta = GemmBeta::First;
  else if (beta.json() == 1)
    command.beta = GemmBeta::One;
  else if (beta.json() != 0)
    beta.fail("is not 0, 1 or \"first\"");
  if (command.beta == GemmBeta::First && !inLoop_)
    beta.fail("is \"first\" outside of a loop");
  if (std::optional<Node> epilogue = node.find("epilogue")) {
    command.epilogue = true;
    command.items.emplace_back();
    readKernel(*epilogue, command);
    readLaunchItem(*epilogue, command.items.back());
    if (command.batch != 1)
      epilogue->fail("needs a batch of 1");
  }
}

void ProgramReader::readTransfer(const Node &node, Command &command) {
  command.size = node.at("bytes").integer(0);
  if (command.kind == Command::Kind::Copy) {
    command.from = readRef(node.at("from"), command.size);
    command.to = readRef(node.at("to"), command.size);
  } else {
    command.to = readRef(node.at("ref"), command.size);
  }
}

Command ProgramReader::readCommand(const Node &node) {
  Command command;
  Node op = node.at("op");
  std::string kind = op.text();
  if (std::optional<Node> name = node.find("name"))
    command.name = name->text();
  else
    command.name = kind;
  if (std::optional<Node> flops = node.find("flops"))
    command.flops = flops->integer(0);
  // For a fill or a copy `bytes` is its size, which is its traffic too.
  if (std::optional<Node> bytes = node.find("bytes"))
    command.bytes = bytes->integer(0);

  if (kind == "launch") {
    command.kind = Command::Kind::Launch;
    readKernel(node, command);
    command.grain = node.at("grain").integer(1);
    command.items.emplace_back();
    readLaunchItem(node, command.items.back());
    command.items.back().units = node.at("units").integer(0);
  } else if (kind == "multi_launch") {
    command.kind = Command::Kind::MultiLaunch;
    readKernel(node, command);
    command.grain = node.at("grain").integer(1);
    Node items = node.at("items");
    for (std::size_t i = 0; i < items.size(); ++i) {
      Node item = items.element(i);
      command.items.emplace_back();
      readLaunchItem(item, command.items.back());
      command.items.back().units = item.at("units").integer(0);
    }
  } else if (kind == "gemm") {
    command.kind = Command::Kind::Gemm;
    readGemm(node, command);
  } else if (kind == "loop_begin") {
    command.kind = Command::Kind::LoopBegin;
    command.count = node.at("count").integer(1);
    if (inLoop_)
      node.fail("is a loop in a loop");
    inLoop_ = true;
    iterations_ = std::max<int64_t>(command.count, 1);
  } else if (kind == "loop_end") {
    command.kind = Command::Kind::LoopEnd;
    if (!inLoop_)
      node.fail("ends a loop that was not begun");
    inLoop_ = false;
    iterations_ = 1;
  } else if (kind == "fill") {
    command.kind = Command::Kind::Fill;
    readTransfer(node, command);
  } else if (kind == "copy") {
    command.kind = Command::Kind::Copy;
    readTransfer(node, command);
  } else {
    op.fail("is " + inQuotes(kind) + ", not a command");
  }
  return command;
}

Slot ProgramReader::readSlot(const Node &node) {
  Slot slot;
  slot.name = node.at("name").text();
  Node slotClass = node.at("class");
  std::string className = slotClass.text();
  bool known = false;
  for (auto &[name, value] : slotClasses) {
    if (className == name) {
      slot.slotClass = value;
      known = true;
    }
  }
  if (!known)
    slotClass.fail("is " + inQuotes(className) + ", not a class");
  slot.bytes = node.at("bytes").integer(0);
  slot.offset = readPlace(node.at("offset"), slot.bytes);
  slot.first = node.at("first").integer();
  slot.last = node.at("last").integer();
  return slot;
}

void ProgramReader::readValues(const Node &node, std::vector<ValueInfo> &values,
                               std::vector<int64_t> &offsets) {
  for (std::size_t i = 0; i < node.size(); ++i) {
    Node entry = node.element(i);
    values.push_back(readValue(entry));
    if (entry.failed())
      return;
    offsets.push_back(readPlace(entry.at("offset"), values.back().bytes()));
  }
}

Program ProgramReader::read(const Node &node, ProgramInfo &info) {
  Program program;
  readValues(node.at("inputs"), info.inputs, program.inputOffsets);
  readValues(node.at("outputs"), info.outputs, program.outputOffsets);
  Node commands = node.at("commands");
  std::size_t count = commands.size();
  program.commands.reserve(count);
  for (std::size_t i = 0; i < count && !node.failed(); ++i)
    program.commands.push_back(readCommand(commands.element(i)));
  if (inLoop_)
    commands.fail("ends inside a loop");
  if (std::optional<Node> slots = node.find("slots"))
    for (std::size_t i = 0; i < slots->size() && !node.failed(); ++i)
      program.slots.push_back(readSlot(slots->element(i)));
  return program;
}

static void readStates(const Node &states, ProgramFile &file,
                       ProgramReader &reader) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < states.size() && !states.failed(); ++i) {
    Node node = states.element(i);
    StateInfo state = readState(node);
    if (node.failed())
      return;
    if (!names.insert(state.name).second)
      node.fail("has the name of another state");
    Node bytes = node.at("bytes");
    if (bytes.integer(0) != state.bytes())
      bytes.fail("is not the size of its shape and dtype, " +
                 std::to_string(state.bytes()));
    Node offset = node.at("offset");
    file.stateOffsets.push_back(reader.readPlace(offset, state.bytes()));
    if (file.stateOffsets.back() + state.bytes() > file.stateBytes)
      offset.fail("lies beyond the states' part of the arena");
    file.description.states.push_back(std::move(state));
  }
}

Result<ProgramFile> parseProgramFile(std::string_view json,
                                     int64_t kernelCount) {
  JsonLimits limits;
  limits.maxBytes = std::size_t(1) << 30;
  Result<nlohmann::json> parsed =
      parseJson(json, "program description", limits);
  if (!parsed.ok())
    return Status::error(parsed.status().message());

  ReadFailure failure;
  Node root(*parsed, failure);
  ProgramFile file;
  readDescription(root, file.description);
  Node arena = root.at("arena");
  file.arenaBytes = arena.at("bytes").integer(0);
  Node stateBytes = arena.at("state_bytes");
  file.stateBytes = stateBytes.integer(0);
  if (file.stateBytes > file.arenaBytes)
    stateBytes.fail("is more than the whole arena");
  if (std::optional<Node> host = arena.find("host_bytes"))
    if (host->integer(0) != 0)
      host->fail("is not 0: this target has no host arena");
  if (failure.failed())
    return failure.status();

  ProgramReader stateReader(file, kernelCount);
  readStates(root.at("states"), file, stateReader);
  Node programs = root.at("programs");
  if (!programs.json().is_object())
    programs.fail("is not an object");
  if (failure.failed())
    return failure.status();
  for (auto &[name, unused] : programs.json().items()) {
    ProgramInfo info;
    info.name = name;
    Program program =
        ProgramReader(file, kernelCount).read(programs.at(name.c_str()), info);
    if (failure.failed())
      return failure.status();
    file.description.programs.push_back(std::move(info));
    file.programs.push_back(std::move(program));
  }
  if (failure.failed())
    return failure.status();
  return file;
}

} // namespace kiln
