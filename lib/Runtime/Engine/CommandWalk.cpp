//===- CommandWalk.cpp - Commands in execution order ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandWalk.h"

namespace kiln::runtime {

bool CommandWalk::next() {
  for (;;) {
    while (next_ < end_) {
      const Command &command = program_.commands[next_++];
      if (visitsAll_ ? isExecutedSomewhere(command, run())
                     : isExecuted(command, run()))
        return true;
    }
    if (nextRun_ == program_.runs.size())
      return false;
    const ProgramSegment &segment =
        program_.segments[program_.runs[nextRun_++].segment];
    next_ = segment.begin;
    end_ = segment.end;
  }
}

} // namespace kiln::runtime
