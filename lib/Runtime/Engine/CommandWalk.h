//===- CommandWalk.h - Commands in execution order --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loops of a program, and an iterator over its commands in execution order.
// Loops do not nest.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COMMANDWALK_H
#define KILN_LIB_RUNTIME_ENGINE_COMMANDWALK_H

#include "kiln/Runtime/Engine/Command.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln::runtime {

/// A loop: the commands between the loop_begin at index `begin` and the
/// loop_end at index `end`, executed `count` times.
struct ProgramLoop {
  std::size_t begin, end;
  int64_t count;
};

std::vector<ProgramLoop> loopsOf(const std::vector<Command> &commands);

/// Returns, for each command, how often it is executed.
std::vector<int64_t> runsOf(const std::vector<Command> &commands);

/// Visits commands in execution order. A loop_begin is skipped; a loop_end is
/// visited once, after the last iteration.
///
///   for (CommandWalk walk(program.commands); walk.next();)
///     visit(walk.command(), walk.iteration());
class CommandWalk {
public:
  /// `commands` must outlive this object, which allocates no memory.
  explicit CommandWalk(const std::vector<Command> &commands)
      : commands_(commands) {}

  /// Advances to the next command. Returns false if there is no next command.
  bool next();
  std::size_t command() const { return next_ - 1; }
  /// Returns the iteration of the enclosing loop, or 0 outside of loops.
  int64_t iteration() const { return iteration_; }

private:
  const std::vector<Command> &commands_;
  std::size_t next_ = 0;
  std::size_t loopBegin_ = 0;
  int64_t iteration_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COMMANDWALK_H
