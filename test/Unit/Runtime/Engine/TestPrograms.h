//===- TestPrograms.h - Programs that tests build from commands -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_TESTPROGRAMS_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_TESTPROGRAMS_H

#include "kiln/Runtime/Engine/Program.h"

#include <utility>
#include <vector>

namespace kiln::runtime {

/// Returns a program that executes every command once.
inline Program programOf(std::vector<Command> commands) {
  Program program;
  program.segments = {{"step", 0, commands.size()}};
  program.runs = {{0, outsideMicrobatches()}};
  program.commands = std::move(commands);
  return program;
}

/// Returns a program with `count` micro-batches. Commands [forward, backward)
/// are their forward segment, and commands [backward, end) their backward
/// segment.
inline Program
inMicrobatches(std::vector<Command> commands, std::size_t forward,
               std::size_t backward, std::size_t end, int64_t count,
               const abi::SegmentOrder &order = abi::SegmentOrder()) {
  Program program;
  program.segments = {{"begin", 0, forward},
                      {"forward", forward, backward},
                      {"backward", backward, end},
                      {"end", end, commands.size()}};
  program.runs.push_back({0, outsideMicrobatches()});
  for (const abi::SegmentRun &run : order.runs(count))
    program.runs.push_back(
        {run.segment == abi::Segment::Forward ? 1u : 2u, run});
  program.runs.push_back({3, outsideMicrobatches()});
  program.microbatches = {count, order.slots(count), forward, backward, end};
  program.commands = std::move(commands);
  return program;
}

} // namespace kiln::runtime

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_TESTPROGRAMS_H
