//===- ChainMoves.h - Local search on the schedule of a chain ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Improves a schedule by moves that need not leave it memory-persistent. It
// works on bare sequences of operations that do not say what is dropped: a
// value lives from where it is produced to its last use before it is produced
// again. So deleting a forward pass keeps an earlier value for longer, and
// inserting one drops it early.
//
//   descent      delete a forward pass; change an option; save in a forward
//   pass
//                instead of in a later one of the same stage
//   disturbance  change to an option that saves less; save later; insert
//   forward
//                passes in front of a use
//
// Every disturbance that fits the budget is followed by a descent, and kept if
// the result is faster than the best so far. All candidates are judged by
// simulate().
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINMOVES_H
#define KILN_LIB_PLANNER_CHAINMOVES_H

#include "ChainView.h"

namespace kiln::chain {

class Moves {
public:
  /// Stops after about that many elementary steps.
  Moves(const Chain &chain, const View &view, int64_t budget, uint64_t effort)
      : chain(chain), view(view), budget(budget), effort(effort) {}

  /// The schedule, or a faster one within the budget.
  std::vector<ChainOp> improve(std::vector<ChainOp> ops);

private:
  using Ops = std::vector<ChainOp>;

  struct Candidate {
    Ops ops;
    double time = 0;
  };

  /// Decides what is dropped, removes what is useless, and simulates.
  bool judge(Ops ops, Candidate &result);
  bool tryFaster(Ops ops, Candidate &best);
  void descend(Candidate &best);
  bool descendOnce(Candidate &best);
  bool disturb(Candidate &best);
  bool tryDisturbed(Ops ops, Candidate &best);

  const Chain &chain;
  const View &view;
  int64_t budget;
  uint64_t effort;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINMOVES_H
