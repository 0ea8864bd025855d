//===- MemoryPlanner.h - The fastest step within a budget -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses what the backward pass repeats and what waits for it on the host, so
// that the arena of the scheduled program fits a budget and the step is as fast
// as it can be. The chain's dynamic program proposes schedules; each proposal
// is applied to a copy of the module, which is then dispatched and scheduled by
// the passes that run in the end, so that its height is the true one, to the
// byte.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_MEMORYPLANNER_H
#define KILN_LIB_COMPILER_MEMORYPLANNER_H

#include "kiln/Compiler/Pipelines.h"
#include "kiln/Planner/Machine.h"
#include "kiln/Runtime/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <limits>

namespace kiln {

/// A budget that everything fits.
inline constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();
/// A plan this close to a bound is not improved on.
inline constexpr double kGoodEnough = 1.005;

struct MemoryRequest {
  int64_t budget = 0; ///< bytes of the arena, states included
  /// Activations may go to the host, into at most so many bytes.
  bool offloadActivations = false;
  int64_t hostBudget = kNoBudget;
  /// A named policy that was chosen by hand; empty: the planner chooses.
  std::string policy;
  /// Another number of micro-batches could be tried, but was not asked for.
  bool suggestsMicrobatches = false;
  int64_t maxThreads = 2;
  bool fuse = true;
};

/// Rewrites the training program of a module on the planned level and notes the
/// prediction in the module's attribute `kiln.plan`. A budget that cannot be
/// met gives exit code 4, with the smallest that can, which is `least` then,
/// and what sets it.
Status planMemory(mlir::ModuleOp module, const Machine &machine,
                  const MemoryRequest &request, int64_t &least);

} // namespace kiln

#endif // KILN_LIB_COMPILER_MEMORYPLANNER_H
