//===- CommandWalk.h - Commands in the order of a run -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loops of a program, and a walk that goes through them. Loops do not nest.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COMMANDWALK_H
#define KILN_LIB_RUNTIME_ENGINE_COMMANDWALK_H

#include "kiln/Runtime/Engine/Command.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln::runtime {

/// The commands between `begin` and `end`, which run `count` times.
struct ProgramLoop {
  std::size_t begin, end;
  int64_t count;
};

std::vector<ProgramLoop> loopsOf(const std::vector<Command> &commands);

/// Says for each command how often it runs.
std::vector<int64_t> runsOf(const std::vector<Command> &commands);

/// Visits commands in the order of a run. The begin of a loop is passed over;
/// its end is visited once, after the last iteration.
///
///   for (CommandWalk walk(program.commands); walk.next();)
///     visit(walk.command(), walk.iteration());
class CommandWalk {
public:
  /// `commands` must outlive the walk, which allocates nothing.
  explicit CommandWalk(const std::vector<Command> &commands)
      : commands_(commands) {}

  /// Moves to the next command; false after the last one.
  bool next();
  std::size_t command() const { return next_ - 1; }
  /// The iteration of the loop around the command; 0 outside of loops.
  int64_t iteration() const { return iteration_; }

private:
  const std::vector<Command> &commands_;
  std::size_t next_ = 0;
  std::size_t loopBegin_ = 0;
  int64_t iteration_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COMMANDWALK_H
