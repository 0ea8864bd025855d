//===- CommandWalk.h - Commands in execution order --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An iterator over the executions of a program's commands, in the order in
// which the commands are executed.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COMMANDWALK_H
#define KILN_LIB_RUNTIME_ENGINE_COMMANDWALK_H

#include "kiln/Runtime/Engine/Program.h"

#include <cstddef>

namespace kiln::runtime {

/// Visits the commands of a program that this rank executes, in execution
/// order. A command of the micro-batches is visited once for each execution.
///
///   for (CommandWalk walk(program); walk.next();)
///     visit(walk.command(), walk.run());
class CommandWalk {
public:
  /// `program` must outlive this object, which allocates no memory.
  /// If `visitsAll`, the commands of other ranks are visited, too.
  explicit CommandWalk(const Program &program, bool visitsAll = false)
      : program_(program), visitsAll_(visitsAll) {}

  /// Advances to the next command. Returns false if there is no next command.
  bool next();
  /// Returns the index of the command in Program::commands.
  std::size_t command() const { return next_ - 1; }
  const abi::SegmentRun &run() const { return program_.runs[nextRun_ - 1].run; }

private:
  const Program &program_;
  bool visitsAll_;
  /// The rest of the current segment: commands [next_, end_).
  std::size_t next_ = 0, end_ = 0;
  std::size_t nextRun_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COMMANDWALK_H
