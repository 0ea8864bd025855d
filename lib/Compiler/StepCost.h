//===- StepCost.h - Cost of ops and commands --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Predicts the seconds that ops take, at two levels. An op of the planned level
// is priced before fusion, to guide the search for a plan. A command of the
// scheduled level is priced as it will run, to compare plans and report them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_STEPCOST_H
#define KILN_LIB_COMPILER_STEPCOST_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Planner/Machine.h"

#include "llvm/ADT/StringMap.h"

namespace kiln {

/// Returns the seconds of one op of the planned level.
double opSeconds(mlir::Operation *op, const Machine &machine);

/// Returns the seconds of a dispatch or matmul of the dispatched level.
double dispatchSeconds(mlir::Operation *op, const Machine &machine);

/// Seconds of the kernels that are already priced, by kernel name.
using KernelSeconds = llvm::StringMap<double>;

/// Returns the seconds of one command. Loops, host-device copies and waits cost
/// nothing by themselves.
double commandSeconds(mlir::Operation *command, const Machine &machine,
                      KernelSeconds &kernels);

/// Simulates the completion times of copies between device and host. Each
/// direction executes its copies in the order in which they were started,
/// concurrently with computation.
class LinkClock {
public:
  explicit LinkClock(const Machine &machine) : machine(machine) {}

  /// The identity of a copy: an object, and the ring slot of the micro-batch.
  using Key = std::pair<const void *, int64_t>;

  /// Starts a copy at the current time.
  void start(Key copy, double bytes, LinkDirection direction);
  /// Advances the current time to the end of a copy.
  void wait(Key copy);

  double now = 0; ///< Seconds since the program started.

private:
  const Machine &machine;
  double freeFrom[2] = {0, 0};
  llvm::DenseMap<Key, double> doneAt;
};

/// Returns the seconds of one run of a scheduled program.
double programSeconds(rt::ProgramOp program, const Machine &machine);

} // namespace kiln

#endif // KILN_LIB_COMPILER_STEPCOST_H
