//===- StepCost.h - What ops and commands cost on a machine -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two views of the same costs. An op of the planned level is priced before it
// is known what it will be fused with, to steer the search for a plan; a
// command of the scheduled level is priced as it will run, to compare plans and
// to report them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_STEPCOST_H
#define KILN_LIB_COMPILER_STEPCOST_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Planner/Machine.h"

#include "llvm/ADT/StringMap.h"

namespace kiln {

/// Seconds of one op of the planned level.
double opSeconds(mlir::Operation *op, const Machine &machine);

/// Seconds of a dispatch or product of the dispatched level.
double dispatchSeconds(mlir::Operation *op, const Machine &machine);

/// Seconds of kernels that were priced already, by name.
using KernelSeconds = llvm::StringMap<double>;

/// Seconds of one command; loops, copies between device and host, and waits
/// take none by themselves.
double commandSeconds(mlir::Operation *command, const Machine &machine,
                      KernelSeconds &kernels);

/// When copies between device and host are done. Each direction does one copy
/// after the other, in the order of their beginnings, beside what is computed.
class LinkClock {
public:
  explicit LinkClock(const Machine &machine) : machine(machine) {}

  /// Begins a copy, now.
  void start(const void *copy, double bytes, LinkDirection direction);
  /// Moves the time to the end of a copy.
  void wait(const void *copy);

  double now = 0; ///< seconds since the program's begin

private:
  const Machine &machine;
  double freeFrom[2] = {0, 0};
  llvm::DenseMap<const void *, double> doneAt;
};

/// Seconds of one run of a scheduled program.
double programSeconds(rt::ProgramOp program, const Machine &machine);

} // namespace kiln

#endif // KILN_LIB_COMPILER_STEPCOST_H
