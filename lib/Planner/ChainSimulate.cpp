//===- ChainSimulate.cpp - Simulation of a schedule of a chain --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes a sequence of operations on the set of present values, according to
// the memory model in kiln/Planner/Chain.h. Does not rely on the planner, whose
// schedules it checks.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Chain.h"

#include <algorithm>

using namespace kiln::support;
using namespace kiln;

namespace {

class Machine {
public:
  Machine(const Chain &chain)
      : chain(chain), alone(chain.size() + 1, false),
        savedBy(chain.size() + 1, -1), reached(chain.size()) {
    alone[0] = true;
    live = cost.peak = chain.value(0) + chain.gradient(chain.size());
  }

  ChainCost run(llvm::ArrayRef<ChainOp> ops);

private:
  const char *step(const ChainOp &op);
  const char *forward(int32_t i, bool drop);
  const char *save(int32_t i, int32_t option, bool drop);
  const char *backward(int32_t i);

  bool present(int32_t i) const { return alone[i] || savedBy[i] >= 0; }
  const StageOption &savingOption(int32_t i) const {
    return chain.stages[i].options[savedBy[i + 1]];
  }
  /// Accounts for an operation that adds `yielded` bytes to the live bytes.
  void allocate(int64_t yielded, int64_t workspace) {
    during = std::max(live, live + yielded + workspace);
    live += yielded;
  }

  const Chain &chain;
  /// True if a_i, the input of stage i, is present as a separate value, not
  /// only as part of abar_i, the values that stage i - 1 saved.
  std::vector<bool> alone;
  /// Option of stage i - 1 whose abar_i is present, or -1.
  std::vector<int32_t> savedBy;
  /// Index of the value whose gradient is present.
  int32_t reached;
  int64_t live = 0;
  int64_t host = 0;
  int64_t during = 0;
  ChainCost cost;
};

} // namespace

const char *Machine::forward(int32_t i, bool drop) {
  if (i + 1 >= reached)
    return "its output is no longer needed";
  if (!present(i))
    return "its input is not present";
  if (present(i + 1))
    return "its output is already present";
  if (drop && (i == 0 || !alone[i]))
    return "its input cannot be dropped";
  allocate(chain.value(i + 1), chain.stages[i].fastForwardWorkspace);
  alone[i + 1] = true;
  if (drop) {
    alone[i] = false;
    live -= chain.value(i);
  }
  cost.time += chain.stages[i].fastForward;
  return nullptr;
}

const char *Machine::save(int32_t i, int32_t index, bool drop) {
  const Stage &stage = chain.stages[i];
  if (i >= reached)
    return "its backward pass has already run";
  if (!present(i))
    return "its input is not present";
  if (savedBy[i + 1] >= 0)
    return "it has already saved";
  if (index < 0 || index >= static_cast<int32_t>(stage.options.size()))
    return "the option does not exist";
  if (drop && (i == 0 || !alone[i]))
    return "its input cannot be dropped";
  const StageOption &option = stage.options[index];
  allocate(option.saved, option.forwardWorkspace);
  savedBy[i + 1] = index;
  if (alone[i + 1]) {
    alone[i + 1] = false;
    live -= chain.value(i + 1);
  }
  if (drop) {
    alone[i] = false;
    live -= chain.value(i);
  }
  host += option.hostBytes;
  cost.hostPeak = std::max(cost.hostPeak, host);
  cost.time += option.forward;
  return nullptr;
}

const char *Machine::backward(int32_t i) {
  if (i + 1 != reached)
    return "the gradient of its output is not present";
  if (savedBy[i + 1] < 0)
    return "its forward pass has not saved anything";
  if (!present(i))
    return "its input is not present";
  const StageOption &option = savingOption(i);
  allocate(chain.gradient(i), option.backwardWorkspace);
  live -= chain.gradient(i + 1) + option.saved;
  host -= option.hostBytes;
  savedBy[i + 1] = -1;
  if (i > 0 && alone[i]) {
    alone[i] = false;
    live -= chain.value(i);
  }
  reached = i;
  cost.time += option.backward;
  return nullptr;
}

const char *Machine::step(const ChainOp &op) {
  if (op.stage < 0 || op.stage >= chain.size())
    return "the stage does not exist";
  switch (op.kind) {
  case ChainOpKind::ForwardCheckpoint:
    return forward(op.stage, /*drop=*/false);
  case ChainOpKind::ForwardDrop:
    return forward(op.stage, /*drop=*/true);
  case ChainOpKind::ForwardSave:
    return save(op.stage, op.option, /*drop=*/false);
  case ChainOpKind::ForwardSaveDrop:
    return save(op.stage, op.option, /*drop=*/true);
  case ChainOpKind::Backward:
    return backward(op.stage);
  }
  return "the kind of operation is unknown";
}

ChainCost Machine::run(llvm::ArrayRef<ChainOp> ops) {
  for (size_t position = 0; position < ops.size(); ++position) {
    if (const char *error = step(ops[position])) {
      cost.error = "operation " + std::to_string(position) + " on stage " +
                   std::to_string(ops[position].stage) + ": " + error;
      return cost;
    }
    during = std::max(during, live);
    if (cost.peakOp < 0 ? during >= cost.peak : during > cost.peak) {
      cost.peak = during;
      cost.peakOp = static_cast<int32_t>(position);
    }
  }
  if (reached != 0)
    cost.error = "the backward pass of stage " + std::to_string(reached - 1) +
                 " is missing";
  return cost;
}

ChainCost kiln::simulate(const Chain &chain, llvm::ArrayRef<ChainOp> ops) {
  return Machine(chain).run(ops);
}
