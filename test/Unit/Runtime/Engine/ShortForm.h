//===- ShortForm.h - Short form of descriptions -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that complete and change program descriptions. A description that a
// test writes by hand has one role with one rank, and states that are not
// sharded. Each of its programs has either "commands", which form a single
// segment, or the segments that inMicrobatches() returns.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_SHORTFORM_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_SHORTFORM_H

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kiln::runtime::toy {

/// Returns the complete description: adds missing members, and keeps the
/// others.
nlohmann::json inFull(nlohmann::json description);

/// The micro-batches in a list of commands: commands [forward, backward) are
/// the forward segment, and commands [backward, end) the backward segment.
struct Division {
  std::size_t forward, backward, end;
  int64_t microbatches;
  std::string order = "alternate";
  int64_t slots = 1;
};

/// Returns the members "segments" and "order" of a program. The segments are
/// "begin", "forward", "backward" and "end".
nlohmann::json inMicrobatches(const nlohmann::json &commands,
                              const Division &division);

/// Returns the commands of the first segment of a program, usually the only
/// one.
nlohmann::json &commandsOf(nlohmann::json &program);
const nlohmann::json &commandsOf(const nlohmann::json &program);

/// Returns the commands of the segment with this name.
nlohmann::json &segmentOf(nlohmann::json &program, const std::string &name);

/// Returns the commands of all segments in the order of their indexes.
std::vector<nlohmann::json *> allCommands(nlohmann::json &program);

/// Returns the command with this index.
nlohmann::json &commandAt(nlohmann::json &program, std::size_t index);

// insertCommand() and eraseCommand() also change the lifetimes of slots, so
// that every lifetime begins and ends with the same commands as before.

/// Inserts a command before the command with this index, in the same segment.
void insertCommand(nlohmann::json &program, std::size_t index,
                   const nlohmann::json &command);
/// Inserts a command before the command with index `place` in a segment.
void insertCommand(nlohmann::json &program, const std::string &segment,
                   std::size_t place, const nlohmann::json &command);
void eraseCommand(nlohmann::json &program, std::size_t index);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_SHORTFORM_H
