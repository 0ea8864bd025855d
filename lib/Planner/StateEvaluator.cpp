//===- StateEvaluator.cpp - Simulation of many choices of states ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateEvaluator.h"

#include "llvm/Support/Parallel.h"

#include <algorithm>

using namespace kiln;

/// Maximum number of threads.
static constexpr size_t kMostThreads = 16;
/// Number of commands whose simulation takes much longer than the start of a
/// thread.
static constexpr size_t kCommandsPerThread = 16384;

StateEvaluator::StateEvaluator(const StateProblem &problem)
    : problem(problem),
      most(std::clamp<size_t>(llvm::parallel::strategy.compute_thread_count(),
                              1, kMostThreads)) {
  simulations.emplace_back(problem);
}

std::vector<StateCost> StateEvaluator::run(
    size_t count,
    llvm::function_ref<std::vector<StateChoice>(size_t)> choicesOf) {
  std::vector<StateCost> costs(count);
  size_t commands = count * problem.seconds.size();
  size_t threads = std::clamp<size_t>(commands / kCommandsPerThread, 1, most);
  while (simulations.size() < threads)
    simulations.emplace_back(problem);
  auto runPart = [&](size_t thread) {
    for (size_t i = thread; i < count; i += threads)
      costs[i] =
          simulations[thread].run(choicesOf(i), /*recordsLeads=*/false);
  };
  if (threads == 1)
    runPart(0);
  else
    llvm::parallelFor(0, threads, runPart);
  return costs;
}
