//===- StageChain.cpp - The forward pass as a chain of stages ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/StageChain.h"

using namespace mlir;
using namespace kiln;

bool kiln::isHeavyOp(Operation *op) {
  KernelOpInterface kernel = kernelOpOf(op);
  return familyOf(op) == Family::Gemm || (kernel && kernel.isHeavy());
}

/// Returns the layer of the first op that belongs to a layer, or null.
static LayerAttr layerOf(ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (LayerAttr layer = getLayer(op))
      return layer;
  return {};
}

/// Returns the op kiln.phase, which marks the beginning of the backward pass,
/// or null if there is none. The op is in the block of the program or of its
/// micro-batch loop.
static PhaseOp findPhase(ProgramOp program) {
  PhaseOp phase;
  program.walk([&](PhaseOp op) { phase = op; });
  return phase;
}

StageChain::StageChain(ProgramOp program, StageCut cut) {
  PhaseOp phase = findPhase(program);
  if (!phase)
    return;
  Block *block = phase->getBlock();

  // A value is fixed if it depends only on states and constants, or if it is a
  // view of an argument of the program.
  llvm::DenseSet<Value> fixed;
  auto isFixed = [&](Value value) {
    return value.getParentBlock() != block || fixed.contains(value);
  };
  SmallVector<Operation *> forward;
  for (Operation &op : *block) {
    if (&op == phase.getOperation())
      break;
    bool reads = isa<ReadOp>(op) || op.hasTrait<OpTrait::ConstantLike>();
    bool follows = op.getNumOperands() > 0 &&
                   llvm::all_of(op.getOperands(), [&](Value operand) {
                     return isFixed(operand) || (isa<BlockArgument>(operand) &&
                                                 familyOf(&op) == Family::View);
                   });
    if (reads || follows)
      fixed.insert(op.result_begin(), op.result_end());
    else
      forward.push_back(&op);
    if (follows && !isHeavyOp(&op))
      fixedOps.insert(&op);
  }
  for (auto it = std::next(Block::iterator(phase)); it != block->end(); ++it)
    backward.insert(&*it);
  // The loss begins at the first op that reads the loss scale. Such an op
  // computes the loss together with its gradients.
  if (Value scale = program.getInput(InputRole::LossScale)) {
    auto loss = llvm::find_if(forward, [&](Operation *op) {
      return llvm::is_contained(op->getOperands(), scale);
    });
    findCuts(forward, loss - forward.begin());
  } else {
    findCuts(forward, forward.size());
  }
  if (cut == StageCut::Layers)
    joinLayers();
  numberStages();
  addMaterializations();
  llvm::copy_if(forward, std::back_inserter(loss),
                [&](Operation *op) { return stageOf(op) < 0; });
  findResiduals();
}

/// Cuts the forward pass after an op if exactly one value is live at that
/// point, that is, has been computed and is read by a later forward op.
void StageChain::findCuts(ArrayRef<Operation *> forward, size_t lossBegin) {
  DenseMap<Operation *, int64_t> order;
  for (auto [i, op] : llvm::enumerate(forward))
    order[op] = i;
  auto lastForwardUse = [&](Value value) {
    int64_t last = -1;
    for (Operation *user : value.getUsers())
      if (auto found = order.find(user); found != order.end())
        last = std::max(last, found->second);
    return last;
  };

  // `piece` contains the ops between two consecutive cuts. These ops become a
  // new stage, or join the preceding stage if none of the ops is heavy (a GEMM
  // or another expensive op).
  llvm::SmallSetVector<Value, 8> live;
  SmallVector<Operation *> piece;
  for (int64_t i = 0; i < static_cast<int64_t>(lossBegin); ++i) {
    Operation *op = forward[i];
    piece.push_back(op);
    for (Value result : op->getResults())
      if (lastForwardUse(result) > i)
        live.insert(result);
    live.remove_if([&](Value v) { return lastForwardUse(v) <= i; });
    if (live.size() != 1)
      continue;
    // If the only live value after `piece` is the output of the preceding
    // stage, later forward ops read no result of `piece`, so `piece` does not
    // become a stage.
    bool heavy = llvm::any_of(piece, isHeavyOp) &&
                 (chain.empty() || live.front() != chain.back().output);
    if (!heavy && !chain.empty()) {
      llvm::append_range(chain.back().ops, piece);
    } else {
      ForwardStage stage;
      stage.ops = piece;
      if (!chain.empty())
        stage.input = chain.back().output;
      chain.push_back(std::move(stage));
    }
    chain.back().output = live.front();
    piece.clear();
  }
  // The ops after the last cut compute the loss. They belong to no stage.
  for (ForwardStage &stage : chain)
    stage.layer = layerOf(stage.ops);
}

/// Joins adjacent stages of the same layer.
void StageChain::joinLayers() {
  std::vector<ForwardStage> joined;
  for (ForwardStage &stage : chain) {
    if (joined.empty() || !stage.layer || stage.layer != joined.back().layer) {
      joined.push_back(std::move(stage));
      continue;
    }
    llvm::append_range(joined.back().ops, stage.ops);
    joined.back().output = stage.output;
  }
  chain = std::move(joined);
}

void StageChain::numberStages() {
  for (auto [k, stage] : llvm::enumerate(chain)) {
    for (Operation *op : stage.ops)
      stageOfOp[op] = k;
    if (stage.input)
      stageOfInput[stage.input] = k;
  }
  if (!chain.empty())
    stageOfInput[chain.back().output] = size();
}

/// Returns the stage to which a fixed op, one that depends only on states and
/// constants, is added, or -1 if there is none. The stages of the fixed ops
/// that read the results of `op` must have been found.
int64_t StageChain::findStageOfFixed(Operation *op) const {
  int64_t found = -1;
  bool isRead = false;
  for (Operation *user : op->getUsers()) {
    user = op->getBlock()->findAncestorOpInBlock(*user);
    if (backward.contains(user)) {
      isRead = true;
      continue;
    }
    int64_t stage = stageOf(user);
    if (stage < 0 || (found >= 0 && stage != found))
      return -1;
    found = stage;
    isRead |= isFixed(user);
  }
  return isRead ? found : -1;
}

/// Adds each op that computes a materialization (a residual that depends only
/// on states and constants) to the stage whose ops read its result.
void StageChain::addMaterializations() {
  llvm::SmallSetVector<int64_t, 8> changed;
  for (Operation *op : llvm::reverse(fixedOps))
    if (int64_t stage = findStageOfFixed(op); stage >= 0) {
      stageOfOp[op] = stage;
      chain[stage].ops.push_back(op);
      changed.insert(stage);
    }
  for (int64_t stage : changed)
    llvm::sort(chain[stage].ops, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
}

void StageChain::findResiduals() {
  for (ForwardStage &stage : chain)
    for (Operation *op : stage.ops)
      for (Value result : op->getResults())
        if (result != stage.output &&
            llvm::any_of(result.getUsers(), [&](Operation *user) {
              return backward.contains(user);
            }))
          stage.residuals.push_back(result);
}

int64_t StageChain::stageReading(Value value) const {
  if (auto found = stageOfInput.find(value); found != stageOfInput.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  return op ? stageOf(op) : -1;
}

int64_t StageChain::stageOf(Operation *op) const {
  auto found = stageOfOp.find(op);
  return found == stageOfOp.end() ? -1 : found->second;
}
