//===- WrittenStates.cpp - Finds the states that programs write -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If a command writes a state, one of its results begins within the state.
// Therefore it suffices to look up, for the address of the first byte of each
// result, the state that contains this address.
//
//===----------------------------------------------------------------------===//

#include "WrittenStates.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace kiln::runtime {

void markWrittenStates(ProgramFile &file) {
  std::vector<StateInfo> &states = file.description.states;
  using Begin = std::tuple<ArenaKind, int64_t, size_t>;
  // The states of each owner, sorted by address. An owner is a rank that alone
  // has the states, or -1 for the states that all ranks have. States of
  // different owners may share bytes.
  std::map<int64_t, std::vector<Begin>> begins;
  for (size_t i = 0; i < states.size(); ++i) {
    states[i].written = false;
    begins[states[i].owner()].emplace_back(file.statePlaces[i].arena,
                                           file.statePlaces[i].offset, i);
  }
  for (auto &[owner, sorted] : begins)
    std::sort(sorted.begin(), sorted.end());
  auto mark = [&](const Place &place, int64_t owner) {
    const std::vector<Begin> &sorted = begins[owner];
    auto after = std::upper_bound(sorted.begin(), sorted.end(),
                                  Begin(place.arena, place.offset, SIZE_MAX));
    if (after == sorted.begin())
      return;
    auto [arena, offset, index] = *std::prev(after);
    StateInfo &state = states[index];
    if (arena == place.arena && place.offset < offset + state.bytes())
      state.written = true;
  };
  for (const Program &program : file.programs)
    for (const Command &command : program.commands)
      for (const MemoryAccess &result : resultsOf(command)) {
        Place place = result.ref.at(outsideMicrobatches());
        mark(place, -1);
        if (result.owner >= 0)
          mark(place, result.owner);
      }
}

} // namespace kiln::runtime
