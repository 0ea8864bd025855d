//===- Program.cpp - Reads and checks the program description -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Engine/Program.h"

#include "CommandReader.h"
#include "DescriptionParser.h"
#include "LaunchGroups.h"
#include "QueueReader.h"
#include "Roles.h"
#include "SegmentReader.h"
#include "SlotReader.h"
#include "TransferOrder.h"
#include "WrittenStates.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <array>
#include <map>

using namespace kiln::support;

namespace kiln::runtime {

const ProgramSegment &Program::segmentOf(std::size_t command) const {
  auto after = std::partition_point(
      segments.begin(), segments.end(),
      [=](const ProgramSegment &segment) { return segment.end <= command; });
  return *after;
}

int64_t Program::executionsOf(std::size_t command) const {
  bool isRepeated = microbatches.contains(int64_t(command)) &&
                    commands[command].when == When::Always;
  return isRepeated ? microbatches.count : 1;
}

Lifetime Program::lifetimeOf(const Slot &slot) const {
  Lifetime life = {slot.first, slot.last};
  if (livesPerMicrobatch(slot))
    return life;
  bool beginsInLast = !slot.isOutside &&
                      life.first >= int64_t(microbatches.backward) &&
                      life.last >= int64_t(microbatches.end);
  if (microbatches.contains(life.first) && !beginsInLast)
    life.first = int64_t(microbatches.forward);
  if (microbatches.contains(life.last))
    life.last = int64_t(microbatches.end) - 1;
  return life;
}

std::string Program::ofMicrobatch(std::size_t command,
                                  const abi::SegmentRun &run) const {
  return microbatches.contains(int64_t(command))
             ? " for micro-batch " + std::to_string(run.microbatch)
             : "";
}

static void readBoundary(const Node &node, ValueInfo &value) {
  value = readValue(node);
}

static void readBoundary(const Node &node, InputInfo &input) {
  static_cast<ValueInfo &>(input) = readValue(node);
  if (std::optional<Node> role = node.find("role")) {
    if (role->text() != "data")
      role->fail("is " + inQuotes(role->text()) + ", expected 'data'");
    input.isData = true;
    Node batched = node.at("batched");
    input.isBatched = batched.boolean();
    if (input.isBatched && input.shape.empty())
      batched.fail("is true, but the input is a scalar, which has no dimension "
                   "for the batch");
  }
}

/// Reads a list of inputs or outputs. All of them are stored in the device
/// arena.
template <typename Info>
static void readValues(const Node &node, const ProgramFile &file,
                       std::vector<Info> &values,
                       std::vector<int64_t> &offsets) {
  for (std::size_t i = 0; i < node.size(); ++i) {
    Node entry = node.element(i);
    readBoundary(entry, values.emplace_back());
    if (entry.failed())
      return;
    offsets.push_back(readOffset(entry.at("offset"), values.back().bytes(),
                                 file, ArenaKind::Device));
  }
}

static Program readProgram(const Node &node, ProgramFile &file,
                           int64_t kernelCount, ProgramInfo &info) {
  Program program;
  info.roles = readRoleNames(node.at("roles"), file.description);
  readValues(node.at("inputs"), file, info.inputs, program.inputOffsets);
  readValues(node.at("outputs"), file, info.outputs, program.outputOffsets);
  SegmentReader segments(node);
  segments.read(file, kernelCount, program);
  if (std::optional<Node> slots = node.find("slots"))
    for (std::size_t i = 0; i < slots->size() && !node.failed(); ++i)
      program.slots.push_back(readSlot(slots->element(i), file, program));
  if (!node.failed())
    checkGroups(segments, file, program);
  if (!node.failed())
    checkTransfers(segments, file, program);
  if (!node.failed())
    findTransferKinds(segments, program, file.queues);
  info.communicates =
      std::any_of(program.commands.begin(), program.commands.end(),
                  [](const Command &command) {
                    return command.kind == Command::Kind::Collective;
                  });
  return program;
}

/// Returns true if `parameter` is divided over the mesh axes over which
/// `mirror`, its copy, is divided, and over one more axis. Such a mirror
/// contains the elements of all ranks on that additional axis.
static bool gathersLast(const StateInfo &parameter, const StateInfo &mirror) {
  const std::vector<Division> &divided = parameter.divisions;
  return divided.size() == mirror.divisions.size() + 1 &&
         std::equal(mirror.divisions.begin(), mirror.divisions.end(),
                    divided.begin()) &&
         divided.back().blocks == 1 && (mirror.isSharded() || mirror.isWhole());
}

/// Checks a mirror, which is a copy of a parameter. The mirror must have the
/// shape and shard of the parameter, unless gathersLast() is true. The mirror
/// must differ from the parameter in type, arena or division.
static void checkMirror(const Node &node, const ProgramFile &file,
                        const std::map<std::string, std::size_t> &indexes,
                        std::size_t index) {
  const StateInfo &mirror = file.description.states[index];
  Node of = node.at("of");
  auto found = indexes.find(mirror.of);
  if (found == indexes.end() ||
      file.description.states[found->second].role != StateRole::Parameter)
    return of.fail("is " + inQuotes(mirror.of) + ", which is not a parameter");
  const StateInfo &parameter = file.description.states[found->second];
  bool gathers = gathersLast(parameter, mirror);
  if (!gathers && parameter.shape != mirror.shape)
    return of.fail("must be a parameter with the shape of this mirror");
  if (parameter.globalShape != mirror.globalShape ||
      (!gathers && (parameter.shard != mirror.shard ||
                    !(parameter.divisions == mirror.divisions))))
    return of.fail("must be a parameter with the shard of this mirror");
  if (!isConvertible(parameter.type, mirror.type))
    return of.fail("must be a parameter whose dtype converts to the dtype of "
                   "this mirror");
  if (!gathers && parameter.type == mirror.type &&
      file.statePlaces[index].arena == file.statePlaces[found->second].arena)
    of.fail("must be a parameter whose dtype or arena differs from that of "
            "this mirror");
}

/// Checks a state that stores a factor of an adapter: the adapted weight must
/// be a matrix, and the factor must have the shape that follows from the shape
/// of the matrix and the rank of the adapters.
static void checkAdapter(const Node &node, const ProgramFile &file,
                         const std::map<std::string, std::size_t> &indexes,
                         std::size_t index) {
  const Description &description = file.description;
  const StateInfo &state = description.states[index];
  const AdapterPart &part = *state.adapter;
  Node adapter = node.at("adapter");
  auto found = indexes.find(part.of);
  if (found == indexes.end())
    return adapter.at("of").fail("is not the name of a state");
  if (!description.lora)
    return adapter.fail("is given, but the description has no 'lora'");
  const StateInfo &weight = description.states[found->second];
  if (weight.role != StateRole::Parameter || weight.adapter ||
      weight.weightShape().size() != 2 || state.role != StateRole::Parameter)
    return adapter.at("of").fail(
        "is invalid: the adapter and the weight that it adapts must have "
        "role 'parameter', and the weight must be a matrix without 'adapter'");
  bool isA = part.factor == AdapterPart::Factor::A;
  int64_t size = weight.weightShape()[isA == part.isTransposed ? 0 : 1];
  int64_t rank = description.lora->rank;
  std::vector<int64_t> shape = {rank, size};
  if (!isA)
    shape = {size, rank};
  if (state.globalShape != shape)
    node.at("shape").fail("is not the shape of the factor of the adapter, "
                          "expected " +
                          shapeText(shape));
}

/// Checks that each adapted weight has exactly one factor A and one factor B,
/// and that a model with adapters trains nothing else.
static void checkAdapters(const Node &states, const ProgramFile &file) {
  const Description &description = file.description;
  std::map<std::string, std::array<int, 2>> factors;
  for (std::size_t i = 0; i < description.states.size(); ++i) {
    const StateInfo &state = description.states[i];
    if (state.adapter)
      ++factors[state.adapter->of][std::size_t(state.adapter->factor)];
    else if (description.lora && state.role == StateRole::Parameter &&
             state.trainable)
      states.element(i).fail("is trainable, but the model has adapters and "
                             "trains only these");
  }
  for (auto &[weight, counts] : factors)
    if (counts[0] != 1 || counts[1] != 1)
      states.fail("has " + std::to_string(counts[0]) + " factors 'a' and " +
                  std::to_string(counts[1]) + " factors 'b' for weight " +
                  inQuotes(weight) + ", expected one of each");
  if (description.lora && factors.empty())
    states.fail("has no adapters, but the description has 'lora'");
}

static void readStates(const Node &states, ProgramFile &file) {
  std::map<std::string, std::size_t> indexes;
  std::size_t count = states.size();
  for (std::size_t i = 0; i < count && !states.failed(); ++i) {
    Node node = states.element(i);
    StateInfo state = readState(node, file.description);
    if (node.failed())
      return;
    if (!indexes.emplace(state.name, i).second)
      node.fail("has the same name as another state");
    Node bytes = node.at("bytes");
    if (bytes.integer(0) != state.bytes())
      bytes.fail("is not the number of bytes of a tensor with this shape and "
                 "dtype, expected " +
                 std::to_string(state.bytes()));
    Place place;
    place.arena = readArena(node);
    Node offset = node.at("offset");
    place.offset = readOffset(offset, state.bytes(), file, place.arena);
    if (place.offset + state.bytes() > file.stateBytesOf(place.arena))
      offset.fail("places the state beyond the bytes of the arena that are "
                  "reserved for states");
    file.statePlaces.push_back(place);
    file.description.states.push_back(std::move(state));
  }
  for (std::size_t i = 0; i < count && !states.failed(); ++i)
    if (file.description.states[i].role == StateRole::Mirror)
      checkMirror(states.element(i), file, indexes, i);
    else if (file.description.states[i].adapter)
      checkAdapter(states.element(i), file, indexes, i);
  if (!states.failed())
    checkAdapters(states, file);
}

static void readArenas(const Node &node, ProgramFile &file) {
  file.arenaBytes = node.at("bytes").integer(0);
  Node stateBytes = node.at("state_bytes");
  file.stateBytes = stateBytes.integer(0);
  if (file.stateBytes > file.arenaBytes)
    stateBytes.fail("is more than the whole arena");
  if (std::optional<Node> bytes = node.find("host_bytes"))
    file.hostArenaBytes = bytes->integer(0);
  if (std::optional<Node> bytes = node.find("host_state_bytes")) {
    file.hostStateBytes = bytes->integer(0);
    if (file.hostStateBytes > file.hostArenaBytes)
      bytes->fail("is more than the whole host arena");
  }
  file.description.hostArenaBytes = file.hostArenaBytes;
}

Result<ProgramFile> parseProgramFile(std::string_view json,
                                     int64_t kernelCount) {
  JsonLimits limits;
  limits.maxBytes = std::size_t(1) << 30;
  Result<nlohmann::json> parsed =
      parseJson(json, "program description", limits);
  if (!parsed.ok())
    return Status::error(parsed.status().message());

  ReadFailure failure(
      ExitCode::Error, "program description",
      "the executable is damaged or was made by another version of kiln: "
      "compile it again");
  Node root(*parsed, failure);
  ProgramFile file;
  file.description.hash = keyedHash(json, 0);
  readDescription(root, file.description);
  readArenas(root.at("arena"), file);
  readQueues(root.at("queues"), file);
  if (failure.failed())
    return failure.status();

  readStates(root.at("states"), file);
  Node programs = root.at("programs");
  if (!programs.json().is_object())
    programs.fail("is not an object");
  if (failure.failed())
    return failure.status();
  for (auto &[name, unused] : programs.json().items()) {
    ProgramInfo info;
    info.name = name;
    Node node = programs.at(name.c_str());
    Program program = readProgram(node, file, kernelCount, info);
    if (failure.failed())
      return failure.status();
    file.description.programs.push_back(std::move(info));
    file.programs.push_back(std::move(program));
  }
  checkRoles(root.at("roles"), file.description);
  if (failure.failed())
    return failure.status();
  markWrittenStates(file);
  return file;
}

} // namespace kiln::runtime
