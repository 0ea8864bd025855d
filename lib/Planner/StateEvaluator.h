//===- StateEvaluator.h - Simulation of many choices of states --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simulates a program for many choices of the states that are stored on the
// host. Several threads simulate different choices at the same time. The
// results do not depend on the number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_STATEEVALUATOR_H
#define KILN_LIB_PLANNER_STATEEVALUATOR_H

#include "StateSimulation.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace kiln {

class StateEvaluator {
public:
  /// `problem` must outlive the evaluator.
  explicit StateEvaluator(const StateProblem &problem);

  /// Simulates the program with one choice per group of states.
  StateCost run(const std::vector<StateChoice> &choices, bool recordsLeads) {
    return simulations.front().run(choices, recordsLeads);
  }
  /// Simulates the program `count` times, the i-th time with the choices that
  /// `choicesOf(i)` returns, and returns the results without prefetch distances
  /// (leads). Several threads call `choicesOf` at the same time.
  std::vector<StateCost>
  run(size_t count,
      llvm::function_ref<std::vector<StateChoice>(size_t)> choicesOf);

private:
  const StateProblem &problem;
  size_t most; ///< Maximum number of threads.
  /// One simulation for each thread, created when the thread is first used.
  std::vector<StateSimulation> simulations;
};

} // namespace kiln

#endif // KILN_LIB_PLANNER_STATEEVALUATOR_H
