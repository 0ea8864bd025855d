//===- WrittenStates.cpp - Which states the programs write ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A command that writes into a state begins to write inside the state's bytes.
//
//===----------------------------------------------------------------------===//

#include "WrittenStates.h"

#include <algorithm>
#include <tuple>

namespace kiln {

std::vector<Ref> writtenRefs(const Command &command) {
  std::vector<Ref> refs;
  switch (command.kind) {
  case Command::Kind::Launch:
    for (int64_t argument : command.call->writes)
      refs.push_back(command.call->args[size_t(argument)]);
    break;
  case Command::Kind::Gemm:
    refs.push_back(command.c.ref);
    if (writesBias(command.library))
      refs.push_back(command.bias.ref);
    if (writesAux(command.library))
      refs.push_back(command.aux.ref);
    if (command.call)
      for (int64_t argument : command.call->writes)
        refs.push_back(command.call->args[size_t(argument)]);
    break;
  case Command::Kind::Fill:
  case Command::Kind::Copy:
  case Command::Kind::CopyStart:
    refs.push_back(command.to);
    break;
  case Command::Kind::CopyWait:
  case Command::Kind::LoopBegin:
  case Command::Kind::LoopEnd:
    break;
  }
  return refs;
}

void markWrittenStates(ProgramFile &file) {
  std::vector<StateInfo> &states = file.description.states;
  using Begin = std::tuple<ArenaKind, int64_t, size_t>;
  std::vector<Begin> begins;
  for (size_t i = 0; i < states.size(); ++i) {
    states[i].written = false;
    begins.emplace_back(file.statePlaces[i].arena, file.statePlaces[i].offset,
                        i);
  }
  std::sort(begins.begin(), begins.end());
  auto mark = [&](const Place &place) {
    auto after = std::upper_bound(begins.begin(), begins.end(),
                                  Begin(place.arena, place.offset, SIZE_MAX));
    if (after == begins.begin())
      return;
    auto [arena, offset, index] = *std::prev(after);
    StateInfo &state = states[index];
    if (arena == place.arena && place.offset < offset + state.bytes())
      state.written = true;
  };
  for (const Program &program : file.programs)
    for (const Command &command : program.commands)
      for (const Ref &ref : writtenRefs(command))
        mark(ref.at(0));
}

} // namespace kiln
