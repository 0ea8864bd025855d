//===- CommandObserver.h - Watching a run, command by command ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the checks of compiled programs need from an engine, whatever carries
// out the commands: a run in the order of the description, in which they see
// the arenas between any two commands.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COMMANDOBSERVER_H
#define KILN_LIB_RUNTIME_ENGINE_COMMANDOBSERVER_H

#include "Copier.h"
#include "kiln/Support/Status.h"

#include <cstddef>
#include <cstdint>

namespace kiln::runtime {

/// Called at the start of a run and around every command of it; `iteration` is
/// that of the enclosing loop, or 0. A loop_end is reported once, after the
/// last iteration; a loop_begin not at all, and on a GPU nothing that is no
/// action of a stream (loop_end, copy_wait).
class CommandObserver {
public:
  virtual ~CommandObserver() = default;
  virtual void begin() {}
  virtual void before(std::size_t command, int64_t iteration) {}
  virtual void after(std::size_t command, int64_t iteration) {}
};

/// Runs programs, one command after the other.
class ProgramRunner {
public:
  virtual ~ProgramRunner() = default;
  /// Asynchronous copies are done at their starts or at their waits.
  /// `observer` may be null.
  virtual Status runInOrder(std::size_t program, CommandObserver *observer,
                            SerialCopier::When copies) = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COMMANDOBSERVER_H
