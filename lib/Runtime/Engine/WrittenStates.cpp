//===- WrittenStates.cpp - Finds the states that programs write -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If a command writes a state, the first byte of one of its results is in the
// state. Therefore only the first byte of each result is compared with the
// states.
//
//===----------------------------------------------------------------------===//

#include "WrittenStates.h"

#include <algorithm>
#include <tuple>

namespace kiln::runtime {

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
      for (const MemoryAccess &result : resultsOf(command))
        mark(result.ref.at(outsideMicrobatches()));
}

} // namespace kiln::runtime
