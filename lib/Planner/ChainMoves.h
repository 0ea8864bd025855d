//===- ChainMoves.h - Local search on the schedule of a chain ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Improves a schedule by moves. The results need not be memory-persistent: a
// stored value may be dropped before its backward use and computed again (see
// ChainTable.h). The moves change a sequence of operations that contains no
// drops; drops are inserted afterwards. A value is live from the operation that
// computes it to its last use before it is computed again. Deleting a forward
// pass that computes a value again therefore extends the lifetime of the
// earlier copy of the value; inserting such a forward pass shortens this
// lifetime.
//
// Moves of a descent:
//   - delete a forward pass;
//   - change the option of a stage, that is, what its forward pass saves;
//   - save in a forward pass instead of in a later forward pass of the same
//     stage.
//
// Moves of a perturbation:
//   - change the option of a stage to one that saves less;
//   - save in an added forward pass directly before the backward pass of the
//     stage;
//   - insert forward passes that compute the input of an operation again.
//
// Every perturbation that fits the budget is followed by a descent. The result
// of the descent replaces the best schedule so far if it is faster. All
// candidates are evaluated by simulate().
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINMOVES_H
#define KILN_LIB_PLANNER_CHAINMOVES_H

#include "ChainView.h"

namespace kiln::chain {

class Moves {
public:
  /// Limits the search to about `effort` elementary steps.
  Moves(const Chain &chain, const View &view, int64_t budget, uint64_t effort)
      : chain(chain), view(view), budget(budget), effort(effort) {}

  /// Returns the given schedule, or a faster one within the budget.
  std::vector<ChainOp> improve(std::vector<ChainOp> ops);

private:
  using Ops = std::vector<ChainOp>;

  struct Candidate {
    Ops ops;
    double time = 0;
  };

  /// Makes operations drop values that are not used later, removes useless
  /// operations, and simulates the schedule. Returns true if the schedule is
  /// valid and its peak memory is within the budget.
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
