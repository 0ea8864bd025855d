//===- PlanCheck.h - Checks of programs against their plans -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The checks of --check-memory that inspect the arenas:
//
//  * paint: All bytes of each arena and of the margin after the arena, except
//    the states, are filled with a pattern. Then the program runs. The highest
//    byte that changed must be the last byte of the highest slot. The check
//    runs with two patterns, because a program may write bytes that equal a
//    pattern. Outputs and states must not depend on the pattern; if they do,
//    the program reads memory before it writes it.
//  * transfers: The program runs twice. All asynchronous transfers are executed
//    at their starts in one run, and at their waits in the other run. Outputs
//    and states must be equal in both runs.
//  * writes: A command must change only its temporary memory, and the slots and
//    states that contain its results. Copies are executed at their starts.
//  * lifetimes: Every slot is filled with NaN immediately after its last use
//    according to the plan. A slot with a lifetime for each micro-batch is
//    filled after its last use in each micro-batch. Outputs and states must not
//    change. The check runs once with transfers executed at their starts, and
//    once with transfers executed at their waits.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_PLANCHECK_H
#define KILN_LIB_RUNTIME_ENGINE_PLANCHECK_H

#include "Arena.h"
#include "CommandObserver.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Engine/Program.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::runtime {

class PlanCheck {
public:
  PlanCheck(const ProgramFile &file, Arenas &arenas, ProgramRunner &runner,
            const std::function<Status(size_t)> &prepare,
            std::vector<MemoryCheckLine> &lines)
      : file_(file), arenas_(arenas), runner_(runner), prepare_(prepare),
        lines_(lines) {}

  /// Checks all programs and appends the results to `lines`. Returns an error
  /// only if `prepare` or a run fails.
  Status run();

private:
  Status checkProgram(size_t index);
  Status checkPaint(size_t index);
  void reportEnd(size_t index, ArenaKind kind, int64_t found);
  Status checkTransfers(size_t index);
  Status checkWrites(size_t index);
  Status checkLifetimes(size_t index, SerialTransfers::When when);

  /// Fills the arenas and their margins, except the states, with `pattern`.
  /// Then calls `prepare` and runs the program.
  Status runPainted(size_t index, unsigned char pattern,
                    CommandObserver *observer = nullptr,
                    SerialTransfers::When when = SerialTransfers::When::Start);
  /// Returns a hash of the outputs of a program and of all states.
  uint64_t results(size_t index) const;
  int64_t highestChanged(ArenaKind kind, unsigned char pattern) const;
  void report(size_t index, const std::string &check, std::string expected,
              std::string found, bool ok);

  const ProgramFile &file_;
  Arenas &arenas_;
  ProgramRunner &runner_;
  const std::function<Status(size_t)> &prepare_;
  std::vector<MemoryCheckLine> &lines_;
  /// Hash of the results that all checks of the current program must produce.
  uint64_t expectedResults_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_PLANCHECK_H
