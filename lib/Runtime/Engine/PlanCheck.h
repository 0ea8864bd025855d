//===- PlanCheck.h - Do programs do what their plan says? -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The checks of --check-memory that look into the arenas:
//
//  * paint: the transient part of each arena, and a margin behind it, are
//    filled with a pattern; then each program runs once. The highest byte that
//    changed must be the last one of the highest slot. Two patterns: a byte
//    that equals one differs from the other. Outputs and states must not
//    depend on the pattern, or something was read that nobody wrote.
//  * copies: outputs and states are the same whether all asynchronous copies
//    are done when they start or when they are waited for.
//  * writes: after every command, only the slots that it writes and its scratch
//    have changed. A copy is done at its start.
//  * lifetimes: every slot is filled with NaN right after its planned last use,
//    and neither outputs nor states change, whenever copies are done.
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

  /// Checks all programs. Fails only when `prepare` or a run does.
  Status run();

private:
  Status checkProgram(size_t index);
  Status checkPaint(size_t index);
  void reportEnd(size_t index, ArenaKind kind, int64_t found);
  Status checkCopies(size_t index);
  Status checkWrites(size_t index);
  Status checkLifetimes(size_t index, SerialCopier::When copies);

  /// Paints everything but states with `pattern`, prepares, runs.
  Status runPainted(size_t index, unsigned char pattern,
                    CommandObserver *observer = nullptr,
                    SerialCopier::When copies = SerialCopier::When::Start);
  /// A hash of the outputs of a program and all states.
  uint64_t results(size_t index) const;
  int64_t highestChanged(ArenaKind kind, unsigned char pattern) const;
  void report(size_t index, const std::string &check, std::string expected,
              std::string found, bool ok);

  const ProgramFile &file_;
  Arenas &arenas_;
  ProgramRunner &runner_;
  const std::function<Status(size_t)> &prepare_;
  std::vector<MemoryCheckLine> &lines_;
  uint64_t expectedResults_ = 0; ///< Of the program being checked.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_PLANCHECK_H
