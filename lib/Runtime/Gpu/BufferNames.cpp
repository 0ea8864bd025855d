//===- BufferNames.cpp - Buffer names for messages ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BufferNames.h"

#include "kiln/Support/Messages.h"

#include <algorithm>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

BufferNames::BufferNames(const ProgramFile &file, const Program &program)
    : file_(file), program_(program), living_(program.commands.size()) {
  auto commands = int64_t(program.commands.size());
  for (std::size_t i = 0; i < program.slots.size(); ++i) {
    const Slot &slot = program.slots[i];
    for (int64_t command = std::max<int64_t>(slot.first, 0);
         command <= std::min(slot.last, commands - 1); ++command)
      living_[std::size_t(command)].push_back(i);
  }
}

std::string_view BufferNames::nameAt(std::size_t command,
                                     const abi::SegmentRun &run,
                                     const Place &place, bool writes) const {
  auto holds = [&](const Place &begin, int64_t bytes) {
    return begin.arena == place.arena && begin.offset <= place.offset &&
           place.offset < begin.offset + bytes;
  };
  for (std::size_t i = 0; i < file_.statePlaces.size(); ++i)
    if (file_.description.states[i].isHere &&
        holds(file_.statePlaces[i], file_.description.states[i].bytes()))
      return file_.description.states[i].name;
  const Slot *found = nullptr;
  for (std::size_t index : living_[command]) {
    const Slot &slot = program_.slots[index];
    if (!holds(slot.at(run), slot.bytes))
      continue;
    if (!found ||
        (writes ? slot.first > found->first : slot.first < found->first))
      found = &slot;
  }
  return found ? std::string_view(found->name) : std::string_view();
}

std::string BufferNames::title(std::size_t command,
                               const abi::SegmentRun &run) const {
  const Command &info = program_.commands[command];
  return std::string(commandKindName(info)) + " " + inQuotes(info.name) +
         " (commands[" + std::to_string(command) + "]" +
         program_.ofMicrobatch(command, run) + ")";
}
