//===- RefReader.cpp - Reads references to memory and tokens --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions of CommandReader.h that read references to memory and tokens of
// transfers. The values of both can depend on the micro-batch, or on the ring
// slot (the buffer instance) that the micro-batch uses.
//
//===----------------------------------------------------------------------===//

#include "CommandReader.h"

#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Messages.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

static const char *arenaName(ArenaKind arena) {
  return arena == ArenaKind::Host ? "the host arena" : "the arena";
}

int64_t readOffset(const Node &node, int64_t bytes, const ProgramFile &file,
                   ArenaKind arena) {
  int64_t offset = node.integer(0);
  std::optional<int64_t> end = checkedAdd<int64_t>(offset, bytes);
  if (end && *end <= file.bytesOf(arena))
    return offset;
  node.fail("makes the buffer end at byte " +
            (end ? std::to_string(*end) : "2^63 or more") + ", beyond " +
            arenaName(arena) + " of " + std::to_string(file.bytesOf(arena)) +
            " bytes");
  return 0;
}

ArenaKind readArena(const Node &node) {
  std::optional<Node> arena = node.find("arena");
  if (!arena)
    return ArenaKind::Device;
  std::string name = arena->text();
  if (name == "host")
    return ArenaKind::Host;
  if (name != "device")
    arena->fail("is " + inQuotes(name) + ", expected device or host");
  return ArenaKind::Device;
}

/// Checks that a range of `bytes` bytes is within the arena in every execution
/// of the command. The caller has checked the range for micro-batch 0 and the
/// first buffer instance.
void CommandReader::checkExecutions(const Node &node, const Ref &ref,
                                    int64_t bytes) const {
  auto refuse = [&](std::size_t element, int64_t value) {
    node.element(element).fail(
        "is " + std::to_string(value) +
        ", expected 0 in a segment that is not repeated for each micro-batch");
  };
  if (segment_.microbatches == 0) {
    if (ref.stride != 0)
      refuse(1, ref.stride);
    else if (ref.ring != 0)
      refuse(2, ref.ring);
    return;
  }
  std::optional<int64_t> advance =
      checkedMul<int64_t>(ref.stride, segment_.microbatches - 1);
  std::optional<int64_t> last =
      advance ? checkedAdd<int64_t>(ref.offset, *advance) : std::nullopt;
  std::optional<int64_t> end =
      last ? checkedAdd<int64_t>(*last, bytes) : std::nullopt;
  int64_t limit = file_.bytesOf(ref.arena);
  if (!end || *last < 0 || *end > limit)
    return node.element(1).fail(
        "moves the reference outside the arena for the last micro-batch");
  std::optional<int64_t> around =
      checkedMul<int64_t>(ref.ring, segment_.slots - 1);
  if (!around || *around > limit - std::max(*end, ref.offset + bytes))
    node.element(2).fail(
        "moves the reference outside the arena in the last slot of the ring");
}

/// Reads a reference to a range of `bytes` bytes.
Ref CommandReader::readRef(const Node &node, int64_t bytes) {
  Ref ref;
  std::size_t size = node.size();
  if (size > 0 && node.element(size - 1).json().is_string()) {
    Node arena = node.element(--size);
    if (arena.json() != "host") {
      arena.fail("is not \"host\"");
      return ref;
    }
    ref.arena = ArenaKind::Host;
  }
  if (size != 2 && size != 3) {
    node.fail("is not [offset, stride] or [offset, stride, ring], optionally "
              "followed by \"host\"");
    return ref;
  }
  ref.offset = readOffset(node.element(0), bytes, file_, ref.arena);
  ref.stride = node.element(1).integer();
  if (size == 3)
    ref.ring = node.element(2).integer(0);
  if (!node.failed())
    checkExecutions(node, ref, bytes);
  return ref;
}

/// Reads the token of a transfer: a number n, or [n, 1] if the token is n plus
/// SegmentRun::slot of the micro-batch.
Token CommandReader::readToken(const Node &node) const {
  Token token;
  if (!node.json().is_array()) {
    token.number = node.integer(0);
    return token;
  }
  if (node.size() != 2) {
    node.fail("is not a transfer token: expected a number, or [number, 1] if "
              "each micro-batch in flight has its own token");
    return token;
  }
  Node number = node.element(0), ring = node.element(1);
  token.number = number.integer(0);
  token.ring = ring.integer(0);
  if (node.failed())
    return token;
  if (token.ring != 1)
    ring.fail("is " + std::to_string(token.ring) + ", expected 1");
  else if (segment_.microbatches == 0)
    node.fail("is [number, 1] (a separate transfer token for each micro-batch "
              "in flight), but the segment is not repeated for each "
              "micro-batch: expected a number");
  else if (!checkedAdd<int64_t>(token.number, segment_.slots))
    number.fail("is too large: the numbers of the transfer tokens exceed 64 "
                "bits");
  return token;
}

} // namespace kiln::runtime
