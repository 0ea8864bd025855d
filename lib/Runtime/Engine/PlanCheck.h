//===- PlanCheck.h - Checks of programs against their plans -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The checks of --check-memory that inspect the arenas:
//
//  * paint: The transient part of each arena and the margin after it are filled
//    with a pattern; then each program runs once. The highest byte that changed
//    must be the last byte of the highest slot. Two patterns are used, because
//    a written byte may equal one of them. Outputs and states must not depend
//    on the pattern; otherwise a program reads memory before writing it.
//  * copies: Outputs and states must be the same if all asynchronous copies are
//    executed at their starts and if they are executed at their waits.
//  * writes: A command must change only the slots that it writes and its
//    scratch memory. Copies are executed at their starts.
//  * lifetimes: Every slot is filled with NaN right after its planned last use.
//    Outputs and states must not change, with copies at their starts and at
//    their waits.
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

  /// Checks all programs. Fails only if `prepare` or a run fails.
  Status run();

private:
  Status checkProgram(size_t index);
  Status checkPaint(size_t index);
  void reportEnd(size_t index, ArenaKind kind, int64_t found);
  Status checkCopies(size_t index);
  Status checkWrites(size_t index);
  Status checkLifetimes(size_t index, SerialCopier::When copies);

  /// Fills the arenas except states with `pattern`, calls `prepare` and runs
  /// the program.
  Status runPainted(size_t index, unsigned char pattern,
                    CommandObserver *observer = nullptr,
                    SerialCopier::When copies = SerialCopier::When::Start);
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
  uint64_t expectedResults_ = 0; ///< Result hash of the current program.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_PLANCHECK_H
