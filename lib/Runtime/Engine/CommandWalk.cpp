//===- CommandWalk.cpp - Commands in execution order ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandWalk.h"

#include <algorithm>

namespace kiln::runtime {

std::vector<ProgramLoop> loopsOf(const std::vector<Command> &commands) {
  std::vector<ProgramLoop> loops;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (beginsLoop(commands[i]))
      begin = i;
    else if (endsLoop(commands[i]))
      loops.push_back({begin, i, commands[begin].count});
  }
  return loops;
}

std::vector<int64_t> runsOf(const std::vector<Command> &commands) {
  std::vector<int64_t> runs(commands.size(), 1);
  for (const ProgramLoop &loop : loopsOf(commands))
    std::fill(runs.begin() + std::ptrdiff_t(loop.begin) + 1,
              runs.begin() + std::ptrdiff_t(loop.end), loop.count);
  return runs;
}

bool CommandWalk::next() {
  for (; next_ < commands_.size(); ++next_) {
    const Command &command = commands_[next_];
    if (beginsLoop(command)) {
      loopBegin_ = next_;
      iteration_ = 0;
      continue;
    }
    if (endsLoop(command)) {
      if (++iteration_ < commands_[loopBegin_].count) {
        next_ = loopBegin_;
        continue;
      }
      iteration_ = 0;
    }
    ++next_;
    return true;
  }
  return false;
}

} // namespace kiln::runtime
