//===- ChainMoves.cpp - Local search on schedules of a chain ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainMoves.h"

using namespace kiln::chain;
using namespace kiln::support;
using namespace kiln;

static bool isForward(const ChainOp &op) {
  return op.kind == ChainOpKind::ForwardCheckpoint ||
         op.kind == ChainOpKind::ForwardDrop;
}
static bool isSave(const ChainOp &op) {
  return op.kind == ChainOpKind::ForwardSave ||
         op.kind == ChainOpKind::ForwardSaveDrop;
}

/// Walks from the last operation to the first and tracks which a_i (inputs of
/// stages) and abar_{i+1} (values that stages save) are used later. Makes
/// operations drop values that are not used later, and returns the useful
/// operations in order.
static std::vector<ChainOp> decideDrops(const std::vector<ChainOp> &ops,
                                        int32_t stages) {
  std::vector<bool> value(stages + 1, false), saved(stages + 1, false);
  std::vector<ChainOp> kept;
  for (size_t position = ops.size(); position-- > 0;) {
    ChainOp op = ops[position];
    int32_t i = op.stage;
    if (op.kind == ChainOpKind::Backward) {
      saved[i] = value[i] = true;
      kept.push_back(op);
      continue;
    }
    bool last = i > 0 && !value[i] && !saved[i - 1];
    if (isSave(op) && saved[i]) {
      saved[i] = false;
      op.kind = last ? ChainOpKind::ForwardSaveDrop : ChainOpKind::ForwardSave;
    } else {
      // The operation is useless if the values that stage i has saved already
      // contain the output, or if nothing reads the output.
      if (saved[i] || !value[i + 1])
        continue;
      op = {last ? ChainOpKind::ForwardDrop : ChainOpKind::ForwardCheckpoint, i,
            -1};
    }
    value[i + 1] = false;
    value[i] = true;
    kept.push_back(op);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

bool Moves::judge(Ops ops, Candidate &result) {
  uint64_t cost = 8 * (ops.size() + view.size());
  effort -= std::min(effort, cost);
  ops = decideDrops(ops, view.size());
  ChainCost simulated = simulate(chain, ops);
  if (!simulated.ok() || simulated.peak > budget)
    return false;
  result.ops = std::move(ops);
  result.time = simulated.time;
  return true;
}

bool Moves::tryFaster(Ops ops, Candidate &best) {
  Candidate result;
  if (!judge(std::move(ops), result) || result.time >= best.time)
    return false;
  best = std::move(result);
  return true;
}

/// Applies the first single move that makes the schedule faster. Returns false
/// if there is none.
bool Moves::descendOnce(Candidate &best) {
  for (size_t t = 0; t < best.ops.size() && effort > 0; ++t) {
    const ChainOp op = best.ops[t];
    if (op.kind == ChainOpKind::Backward)
      continue;
    if (isForward(op)) {
      Ops ops = best.ops;
      ops.erase(ops.begin() + t);
      if (tryFaster(std::move(ops), best))
        return true;
    }
    for (const Option &option : view.options[op.stage]) {
      if (option.index == op.option)
        continue;
      Ops ops = best.ops;
      // Make the operation save with `option`. If it was a forward pass that
      // did not save, the next saving forward pass of the same stage is no
      // longer needed, so delete it.
      size_t later = t + 1;
      while (isForward(op) && later < ops.size() &&
             !(isSave(ops[later]) && ops[later].stage == op.stage))
        ++later;
      ops[t] = {ChainOpKind::ForwardSave, op.stage, option.index};
      if (isForward(op) && later < ops.size())
        ops.erase(ops.begin() + later);
      if (tryFaster(std::move(ops), best))
        return true;
    }
  }
  return false;
}

void Moves::descend(Candidate &best) {
  while (effort > 0 && descendOnce(best))
    ;
}

bool Moves::tryDisturbed(Ops ops, Candidate &best) {
  Candidate result;
  if (!judge(std::move(ops), result))
    return false;
  descend(result);
  if (result.time >= best.time)
    return false;
  best = std::move(result);
  return true;
}

/// Applies the first perturbation that leads to a faster schedule. Returns
/// false if there is none.
bool Moves::disturb(Candidate &best) {
  const Ops start = best.ops;
  for (size_t t = 0; t < start.size(); ++t) {
    const ChainOp op = start[t];
    if (isSave(op)) {
      int64_t saved = chain.stages[op.stage].options[op.option].saved;
      for (const Option &option : view.options[op.stage]) {
        if (effort == 0)
          return false;
        if (option.saved < saved) {
          Ops ops = start;
          ops[t].option = option.index;
          if (tryDisturbed(std::move(ops), best))
            return true;
        }
        // Make this forward pass keep only its input (a checkpoint). Directly
        // before the backward pass of the stage, insert a forward pass that
        // saves the values that the backward pass needs.
        ChainOp backward{ChainOpKind::Backward, op.stage, -1};
        Ops ops = start;
        ops[t].kind = ChainOpKind::ForwardCheckpoint;
        ops.insert(std::find(ops.begin(), ops.end(), backward),
                   {ChainOpKind::ForwardSave, op.stage, option.index});
        if (tryDisturbed(std::move(ops), best))
          return true;
      }
    }
    // Insert forward passes of stages h to op.stage - 1 before this operation.
    Ops ops = start;
    for (int32_t h = op.stage; h-- > 0;) {
      if (effort == 0)
        return false;
      ops.insert(ops.begin() + t, {ChainOpKind::ForwardCheckpoint, h, -1});
      if (tryDisturbed(ops, best))
        return true;
    }
  }
  return false;
}

std::vector<ChainOp> Moves::improve(Ops ops) {
  Candidate best;
  if (!judge(ops, best))
    return ops;
  descend(best);
  while (effort > 0 && disturb(best))
    ;
  return best.ops;
}
