//===- CommandObserver.h - Observers of program execution -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface between engines and the checks of compiled programs; no check
// depends on a specific engine. A check runs the commands of a program in the
// order of the description, and can read and change the arenas between any two
// commands.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COMMANDOBSERVER_H
#define KILN_LIB_RUNTIME_ENGINE_COMMANDOBSERVER_H

#include "Transfers.h"
#include "kiln/Support/Status.h"

#include <cstddef>

namespace kiln::runtime {

/// An observer is called at the start of a run of a program, and before and
/// after each execution of a command. The argument `run` identifies the
/// execution of the segment (list of commands) that contains the command. With
/// --target=cuda, the observer is called only for commands that are actions on
/// a stream, which a copy_wait is not.
class CommandObserver {
public:
  virtual ~CommandObserver() = default;
  virtual void begin() {}
  virtual void before(std::size_t command, const abi::SegmentRun &run) {}
  virtual void after(std::size_t command, const abi::SegmentRun &run) {}
};

/// Runs the commands of programs one after another.
class ProgramRunner {
public:
  virtual ~ProgramRunner() = default;
  /// Runs a program. `when` selects whether an asynchronous transfer is
  /// executed when the program starts it, or when the program waits for it.
  /// `observer` may be null.
  virtual Status runInOrder(std::size_t program, CommandObserver *observer,
                            SerialTransfers::When when) = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COMMANDOBSERVER_H
