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

#include <map>

namespace kiln {

/// Returns the seconds that one op takes by itself. The op belongs to a module
/// at the level Planned (see Levels.h), in which ops are not fused yet.
double opSeconds(mlir::Operation *op, const Machine &machine);

/// Returns the seconds that `op`, a dispatch or matmul of the dispatched level,
/// takes. `memory` is the memory that `op` accesses.
double dispatchSeconds(mlir::Operation *op, const Machine &machine,
                       MemorySpace memory);

/// Caches the estimated seconds of a launch of each kernel. The key is the name
/// of the kernel and the memory that the launch accesses.
using KernelSeconds = std::map<std::pair<llvm::StringRef, MemorySpace>, double>;

/// Returns the seconds of one command. Loops, host-device copies and waits cost
/// nothing by themselves.
double commandSeconds(mlir::Operation *command, const Machine &machine,
                      KernelSeconds &kernels);

/// Simulates the queues of a program. Each queue that executes kernels, each
/// direction of the host-device link, and each queue of collectives executes
/// its commands one after another and concurrently with the others, except
/// where a command waits.
class QueueClocks {
public:
  explicit QueueClocks(const Machine &machine) : machine(machine) {}

  /// The identity of a transfer: the SSA value of its token, and the number
  /// that its micro-batch has among those in flight (its ring slot), or 0.
  using Key = std::pair<const void *, int64_t>;

  /// Executes a command of `queue` that takes `seconds`. The command starts
  /// after the commands of the queues `after`.
  void run(mlir::Attribute queue, mlir::ArrayAttr after, double seconds);
  /// Starts a copy after the commands of the queues `after`.
  void start(Key copy, mlir::ArrayAttr after, double bytes,
             LinkDirection direction);
  /// Starts a collective on `queue`. It runs after all collectives that were
  /// started earlier on `queue`, and after the commands of the queues `after`.
  void startCollective(Key transfer, mlir::Attribute queue,
                       mlir::ArrayAttr after, double seconds);
  /// Blocks a queue until a transfer is complete.
  void wait(mlir::Attribute queue, Key copy);
  /// Returns the time at which all queues that execute kernels are idle.
  double end() const;
  /// Advances the clocks of the queues that execute kernels by `seconds`.
  void advance(double seconds);

private:
  /// Returns the time at which all of `queues` are idle.
  double idle(mlir::ArrayAttr queues) const;

  const Machine &machine;
  llvm::SmallDenseMap<mlir::Attribute, double, 4> now;
  double freeFrom[2] = {0, 0};
  /// The time at which each queue of collectives becomes idle.
  llvm::SmallDenseMap<mlir::Attribute, double, 2> freeOfQueue;
  llvm::DenseMap<Key, double> doneAt;
};

/// Returns the seconds of one run of a scheduled program.
double programSeconds(rt::ProgramOp program, const Machine &machine);

} // namespace kiln

#endif // KILN_LIB_COMPILER_STEPCOST_H
