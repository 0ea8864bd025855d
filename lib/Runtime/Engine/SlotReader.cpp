//===- SlotReader.cpp - Reads the slots of a program ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlotReader.h"

#include "CommandReader.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Messages.h"

#include <array>

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

static constexpr std::array<std::pair<const char *, SlotClass>, 10> slotClasses =
    {{{"parameter", SlotClass::Parameter},
      {"optimizer", SlotClass::Optimizer},
      {"gradient", SlotClass::Gradient},
      {"activation", SlotClass::Activation},
      {"workspace", SlotClass::Workspace},
      {"communication", SlotClass::Communication},
      {"input", SlotClass::Input},
      {"output", SlotClass::Output},
      {"constant", SlotClass::Constant},
      {"materialized", SlotClass::Materialized}}};

const char *slotClassName(SlotClass slotClass) {
  for (auto &[name, value] : slotClasses)
    if (value == slotClass)
      return name;
  return "unknown";
}

/// Reads Slot::rowBytes and Slot::rowPitch.
static void readRows(const Node &node, Slot &slot) {
  if (node.size() != 2)
    return node.fail("has " + std::to_string(node.size()) +
                     " entries, expected [bytes of a row, pitch in bytes]");
  slot.rowBytes = node.element(0).integer(1);
  slot.rowPitch = node.element(1).integer(1);
  if (node.failed())
    return;
  if (slot.rowPitch <= slot.rowBytes || slot.bytes < slot.rowBytes ||
      (slot.bytes - slot.rowBytes) % slot.rowPitch != 0)
    node.fail("has rows of " + std::to_string(slot.rowBytes) +
              " bytes with a pitch of " + std::to_string(slot.rowPitch) +
              " bytes; the pitch must be larger than a row, and the last row "
              "must end at byte " +
              std::to_string(slot.bytes) + ", the end of the slot");
}

/// Reads Slot::type.
static void readSlotType(const Node &node, Slot &slot) {
  std::string name = node.text();
  slot.type = elementTypeNamed(name);
  if (node.failed())
    return;
  if (!slot.type)
    return node.fail("is " + inQuotes(name) + ", which is not an element type");
  int64_t width = bytesOf(*slot.type);
  if (slot.bytes % width != 0)
    node.fail("is " + name + ", but the slot's " + std::to_string(slot.bytes) +
              " bytes are not a whole number of elements");
}

/// Reads Slot::ring.
static void readRing(const Node &node, const ProgramFile &file,
                     const Program &program, Slot &slot) {
  slot.ring = node.integer(1);
  if (node.failed())
    return;
  if (program.microbatches.count == 0)
    return node.fail("is given, but the program has no micro-batches");
  if (slot.ring < slot.bytes)
    return node.fail("is " + std::to_string(slot.ring) +
                     ", expected at least the bytes of the slot, " +
                     std::to_string(slot.bytes));
  std::optional<int64_t> around =
      checkedMul<int64_t>(slot.ring, program.microbatches.slots - 1);
  if (!around || *around > file.bytesOf(slot.arena) - slot.offset - slot.bytes)
    node.fail("is " + std::to_string(slot.ring) +
              ", which places the last of " +
              std::to_string(program.microbatches.slots) +
              " instances outside the arena");
}

/// Checks the lifetime of a slot against the forward and backward segments of
/// the micro-batches.
static void checkLifetime(const Node &node, const Program &program,
                          const Slot &slot) {
  const Microbatches &microbatches = program.microbatches;
  if (slot.ring > 0) {
    if (!program.livesPerMicrobatch(slot) || slot.last < slot.first)
      node.fail("is live from commands[" + std::to_string(slot.first) +
                "] to commands[" + std::to_string(slot.last) +
                "], but a slot with a ring may be live only in a micro-batch, "
                "from commands[" +
                std::to_string(microbatches.forward) + "] to commands[" +
                std::to_string(int64_t(microbatches.end) - 1) + "]");
    return;
  }
  if (program.livesPerMicrobatch(slot) && microbatches.slots > 1 &&
      slot.first < int64_t(microbatches.backward) &&
      slot.last >= int64_t(microbatches.backward))
    node.fail("is live from the forward to the backward segment of a "
              "micro-batch, so it must have a 'ring', because " +
              std::to_string(microbatches.slots) +
              " micro-batches may be in flight");
}

/// Returns true if the slot holds a state, an input or an output of the
/// program. A slot of class Input or Output may also hold a copy of an input or
/// output. Therefore the offset of such a slot is compared with the offsets of
/// the inputs or outputs.
static bool isOutside(const Slot &slot, const ProgramFile &file,
                      const Program &program) {
  auto isAmong = [&](const std::vector<int64_t> &offsets) {
    return slot.arena == ArenaKind::Device &&
           std::find(offsets.begin(), offsets.end(), slot.offset) !=
               offsets.end();
  };
  return slot.offset < file.stateBytesOf(slot.arena) ||
         (slot.slotClass == SlotClass::Input &&
          isAmong(program.inputOffsets)) ||
         (slot.slotClass == SlotClass::Output &&
          isAmong(program.outputOffsets));
}

Slot readSlot(const Node &node, const ProgramFile &file,
              const Program &program) {
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
    slotClass.fail("is " + inQuotes(className) +
                   ", which is not a class of slots");
  slot.bytes = node.at("bytes").integer(0);
  slot.arena = readArena(node);
  slot.offset = readOffset(node.at("offset"), slot.bytes, file, slot.arena);
  slot.first = node.at("first").integer();
  slot.last = node.at("last").integer();
  if (std::optional<Node> dtype = node.find("dtype"))
    readSlotType(*dtype, slot);
  if (std::optional<Node> rows = node.find("rows"))
    readRows(*rows, slot);
  if (std::optional<Node> ring = node.find("ring"))
    readRing(*ring, file, program, slot);
  if (std::optional<Node> owner = node.find("owner"))
    slot.owner = readOwner(*owner, file);
  slot.isOutside = isOutside(slot, file, program);
  if (!node.failed())
    checkLifetime(node, program, slot);
  return slot;
}

} // namespace kiln::runtime
