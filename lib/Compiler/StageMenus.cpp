//===- StageMenus.cpp - Options of the planner's chain ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StageMenus.h"

#include "StepCost.h"
#include "kiln/Dialect/Kiln/Transforms/Fusion.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln::support;
using namespace kiln;

/// Maximum number of options per stage of the forward pass. An option selects
/// what the stage saves. If a stage has more options, they are sorted by size,
/// and those at equally spaced positions are kept.
static constexpr size_t kMostOptions = 16;
/// Maximum number of residuals per stage that an option may drop. Only the
/// largest residuals can be dropped; the others are always kept.
static constexpr size_t kMostChoices = 10;

int64_t kiln::microbatchesOf(const StageChain &stages) {
  if (stages.size() == 0)
    return 1;
  Operation *op = stages.stages().front().ops.front();
  auto microbatches = op->getParentOfType<MicrobatchesOp>();
  return microbatches ? static_cast<int64_t>(microbatches.getCount()) : 1;
}

Value kiln::tensorBehind(Value value) {
  while (auto result = dyn_cast<OpResult>(value)) {
    auto op = dyn_cast<DispatchableOpInterface>(result.getOwner());
    if (!op)
      break;
    int64_t source = op.getTiedOperand(result.getResultNumber());
    if (op.getFamily() == Family::View)
      source = 0;
    if (source < 0)
      break;
    value = op->getOperand(source);
  }
  return value;
}

static bool isRowOp(Operation *op) { return familyOf(op) == Family::Row; }

/// Returns true if a result will probably not be stored in memory: only nearby
/// row ops read it, so that one kernel can produce and consume it.
static bool isFused(Value result,
                    llvm::function_ref<int64_t(Operation *)> positionOf) {
  Operation *op = result.getDefiningOp();
  return isRowOp(op) && !result.use_empty() &&
         llvm::all_of(result.getUsers(), [&](Operation *user) {
           int64_t distance = positionOf(user) - positionOf(op);
           return isRowOp(user) && distance >= 0 && distance <= kNearby;
         });
}

namespace {

/// Residuals that are kept or recomputed together. Bit i of `mask` is set if
/// residual i of the stage belongs to the group. `bytes` is the total size of
/// the tensors in which these residuals are stored.
struct ResidualGroup {
  int64_t bytes = 0;
  uint64_t mask = 0;
};

class MenuBuilder {
public:
  MenuBuilder(const StageChain &stages, const Machine &machine)
      : stages(stages), machine(machine), microbatches(microbatchesOf(stages)) {
  }
  StageMenus run();

private:
  void splitBackward();
  void addStage(int64_t index);
  StageOption makeOption(int64_t index, uint64_t mask);
  int64_t materializedBytes(const ForwardStage &stage, uint64_t mask);
  double repeatSeconds(const ForwardStage &stage, uint64_t mask);
  int64_t forwardPeak(const ForwardStage &stage, uint64_t mask);

  const StageChain &stages;
  const Machine &machine;
  int64_t microbatches;
  StageMenus menus;
  DenseMap<Operation *, double> seconds;
  /// Segment k contains the ops of the backward pass that belong to stage k.
  /// The last segment contains the ops of the loss.
  std::vector<SmallVector<Operation *>> segments;
  /// Live bytes in each segment, not counting values that the forward pass
  /// stores. `passing` is the number of bytes that are live throughout the
  /// segment. `transient` is the maximum number of other bytes that are live at
  /// an op of the segment.
  std::vector<int64_t> passing, transient;
};

} // namespace

/// Returns the last position at which a tensor or a view of it is read. A
/// tensor that leaves the block is live until the end.
static int64_t lastUse(Value tensor,
                       const DenseMap<Operation *, int64_t> &position,
                       int64_t from, int64_t count) {
  int64_t last = from;
  SmallVector<Value> values{tensor};
  while (!values.empty()) {
    Value value = values.pop_back_val();
    for (Operation *user : value.getUsers()) {
      auto found = position.find(user);
      last =
          std::max(last, found == position.end() ? count - 1 : found->second);
      for (Value result : user->getResults())
        if (result != value && tensorBehind(result) == tensor)
          values.push_back(result);
    }
  }
  return last;
}

/// Assigns each op of the loss and of the backward pass to a segment (one per
/// stage, and a last one for the loss), and computes the live bytes of each
/// segment. An op of the backward pass belongs to the lowest stage whose values
/// the backward pass has read so far, up to and including this op.
void MenuBuilder::splitBackward() {
  SmallVector<Operation *> ops(stages.lossOps());
  llvm::append_range(ops, stages.backwardOps());
  segments.resize(stages.size() + 1);
  int64_t current = stages.size();
  SmallVector<int64_t> segmentOf;
  DenseMap<Operation *, int64_t> position;
  for (auto [i, op] : llvm::enumerate(ops)) {
    if (i >= stages.lossOps().size())
      for (Value operand : op->getOperands())
        if (int64_t stage = stages.stageReading(operand); stage >= 0)
          current = std::min(current, stage);
    segments[current].push_back(op);
    segmentOf.push_back(current);
    position[op] = static_cast<int64_t>(i);
  }

  passing.assign(segments.size(), 0);
  transient.assign(segments.size(), 0);
  auto count = static_cast<int64_t>(ops.size());
  std::vector<int64_t> change(count + 1, 0);
  auto positionOf = [&](Operation *op) {
    auto found = position.find(op);
    return found == position.end() ? count + 1000 : found->second;
  };
  for (auto [i, op] : llvm::enumerate(ops)) {
    for (Value result : op->getResults()) {
      if (tensorBehind(result) != result || isFused(result, positionOf))
        continue;
      int64_t last = lastUse(result, position, static_cast<int64_t>(i), count);
      int64_t bytes = bytesOf(result.getType());
      for (int64_t s = segmentOf[i] - 1; s > segmentOf[last]; --s)
        passing[s] += bytes;
      change[i] += bytes;
      change[last + 1] -= bytes;
    }
  }
  int64_t live = 0, index = 0;
  for (int64_t s = stages.size(); s >= 0; --s) {
    int64_t most = 0;
    for (size_t i = 0; i < segments[s].size(); ++i) {
      live += change[index++];
      most = std::max(most, live);
    }
    transient[s] = std::max<int64_t>(0, most - passing[s]);
  }
}

/// Returns the seconds to recompute the residuals that `mask` does not keep.
double MenuBuilder::repeatSeconds(const ForwardStage &stage, uint64_t mask) {
  llvm::DenseSet<Value> kept;
  SmallVector<Value> worklist;
  for (auto [i, residual] : llvm::enumerate(stage.residuals)) {
    if (i >= 64 || mask >> i & 1)
      kept.insert(residual);
    else
      worklist.push_back(residual);
  }
  llvm::DenseSet<Operation *> ops;
  llvm::DenseSet<Operation *> inStage(stage.ops.begin(), stage.ops.end());
  double total = 0;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || value == stage.input || kept.contains(value) ||
        !inStage.contains(op) || !ops.insert(op).second)
      continue;
    total += seconds.lookup(op);
    llvm::append_range(worklist, op->getOperands());
  }
  return total;
}

/// Returns the peak bytes during the forward pass of a stage, without the input
/// of the stage.
int64_t MenuBuilder::forwardPeak(const ForwardStage &stage, uint64_t mask) {
  llvm::DenseSet<Value> kept{stage.output};
  for (auto [i, residual] : llvm::enumerate(stage.residuals))
    if (i >= 64 || mask >> i & 1)
      kept.insert(tensorBehind(residual));
  DenseMap<Operation *, int64_t> order;
  for (auto [i, op] : llvm::enumerate(stage.ops))
    order[op] = static_cast<int64_t>(i);
  auto count = static_cast<int64_t>(stage.ops.size());
  std::vector<int64_t> change(count + 1, 0);
  auto positionOf = [&](Operation *op) {
    auto found = order.find(op);
    return found == order.end() ? int64_t(-1) : found->second;
  };
  for (auto [i, op] : llvm::enumerate(stage.ops))
    for (Value result : op->getResults()) {
      if (tensorBehind(result) != result ||
          (!kept.contains(result) && isFused(result, positionOf)))
        continue;
      int64_t last = kept.contains(result) ? count - 1 : int64_t(i);
      for (Operation *other : stage.ops)
        for (Value operand : other->getOperands())
          if (tensorBehind(operand) == result)
            last = std::max(last, order.lookup(other));
      change[i] += bytesOf(result.getType());
      change[last + 1] -= bytesOf(result.getType());
    }
  int64_t live = 0, most = 0;
  for (int64_t delta : change)
    most = std::max(most, live += delta);
  return most;
}

/// Returns the bytes of the materializations (values computed from states
/// alone) that `mask` keeps.
int64_t MenuBuilder::materializedBytes(const ForwardStage &stage,
                                       uint64_t mask) {
  int64_t bytes = 0;
  for (auto [i, residual] : llvm::enumerate(stage.residuals))
    if ((i >= 64 || mask >> i & 1) &&
        stages.isMaterialization(residual.getDefiningOp()))
      bytes += bytesOf(residual.getType());
  return bytes;
}

StageOption MenuBuilder::makeOption(int64_t index, uint64_t mask) {
  const ForwardStage &stage = stages.stages()[index];
  StageOption option;
  llvm::SmallDenseSet<Value> counted{stage.output};
  int64_t missing = 0;
  option.saved = bytesOf(stage.output.getType());
  for (auto [i, residual] : llvm::enumerate(stage.residuals)) {
    Value root = tensorBehind(residual);
    if (root == stage.input || !counted.insert(root).second)
      continue;
    (i >= 64 || mask >> i & 1 ? option.saved : missing) +=
        bytesOf(root.getType());
  }
  for (Operation *op : stage.ops)
    option.forward += seconds.lookup(op);
  // A materialization (a value computed from states alone) that is kept is
  // computed once for all micro-batches.
  for (auto [i, residual] : llvm::enumerate(stage.residuals))
    if (Operation *op = residual.getDefiningOp();
        (i >= 64 || mask >> i & 1) && stages.isMaterialization(op))
      option.forward -=
          seconds.lookup(op) * double(microbatches - 1) / double(microbatches);
  for (Operation *op : segments[index])
    option.backward += seconds.lookup(op);
  option.backward += repeatSeconds(stage, mask);
  option.forwardWorkspace = forwardPeak(stage, mask) - option.saved;
  // The transient bytes include the gradients of the input and of the output of
  // the stage. Subtract both, because the chain itself counts the gradient of
  // the output as an input of the backward operation, and the gradient of the
  // input as its result.
  int64_t inputGradient = stage.input ? bytesOf(stage.input.getType()) : 0;
  option.backwardWorkspace = passing[index] + transient[index] + missing -
                             bytesOf(stage.output.getType()) - inputGradient;
  return option;
}

void MenuBuilder::addStage(int64_t index) {
  const ForwardStage &stage = stages.stages()[index];
  // Group the residuals by tensor. All materializations (values computed from
  // states alone) form one group, whose key is the null value. Small groups are
  // always kept; the others are sorted by size, largest first.
  llvm::MapVector<Value, ResidualGroup> groups;
  llvm::SmallDenseSet<Value> counted;
  for (auto [i, residual] : llvm::enumerate(stage.residuals)) {
    if (i >= 64)
      break;
    Value tensor = tensorBehind(residual);
    bool fromState = stages.isMaterialization(residual.getDefiningOp());
    ResidualGroup &group = groups[fromState ? Value() : tensor];
    group.mask |= uint64_t(1) << i;
    if (counted.insert(tensor).second)
      group.bytes += bytesOf(tensor.getType());
  }
  int64_t all = 0;
  for (auto &[root, group] : groups)
    all += group.bytes;
  std::vector<ResidualGroup> choices;
  uint64_t always = 0;
  for (auto &[root, group] : groups) {
    if (group.bytes * kSmallShare <= all)
      always |= group.mask;
    else
      choices.push_back(group);
  }
  llvm::sort(choices, [](const ResidualGroup &a, const ResidualGroup &b) {
    return std::tie(b.bytes, a.mask) < std::tie(a.bytes, b.mask);
  });
  while (choices.size() > kMostChoices) {
    always |= choices.back().mask;
    choices.pop_back();
  }

  // Make an option for each subset of `choices`. Drop an option if some other
  // option keeps no more bytes and has a backward pass that is no slower.
  std::vector<std::pair<StageOption, uint64_t>> options;
  for (uint64_t subset = 0; subset < uint64_t(1) << choices.size(); ++subset) {
    uint64_t mask = always;
    for (auto [c, choice] : llvm::enumerate(choices))
      if (subset >> c & 1)
        mask |= choice.mask;
    options.push_back({makeOption(index, mask), mask});
  }
  llvm::sort(options, [](const auto &a, const auto &b) {
    return std::tie(a.first.saved, a.first.backward, a.second) <
           std::tie(b.first.saved, b.first.backward, b.second);
  });
  std::vector<std::pair<StageOption, uint64_t>> front;
  for (auto &option : options)
    if (front.empty() || option.first.backward < front.back().first.backward)
      front.push_back(option);
  std::vector<std::pair<StageOption, uint64_t>> chosen;
  if (front.size() <= kMostOptions) {
    chosen = std::move(front);
  } else {
    for (size_t i = 0; i < kMostOptions; ++i)
      chosen.push_back(front[i * (front.size() - 1) / (kMostOptions - 1)]);
  }

  Stage planned;
  planned.input = stage.input ? bytesOf(stage.input.getType()) : 0;
  planned.inputGradient = planned.input;
  for (Operation *op : stage.ops)
    planned.fastForward += seconds.lookup(op);
  planned.fastForwardWorkspace =
      forwardPeak(stage, 0) - bytesOf(stage.output.getType());
  std::vector<uint64_t> masks;
  std::vector<int64_t> materialized;
  for (auto &[option, mask] : chosen) {
    planned.options.push_back(option);
    masks.push_back(mask);
    materialized.push_back(materializedBytes(stage, mask));
  }
  menus.chain.stages.push_back(std::move(planned));
  menus.saved.push_back(std::move(masks));
  menus.materialized.push_back(std::move(materialized));
  menus.forwardHeavy.push_back(llvm::count_if(stage.ops, isHeavyOp));
  menus.backwardHeavy.push_back(llvm::count_if(segments[index], isHeavyOp));
}

StageMenus MenuBuilder::run() {
  for (const ForwardStage &stage : stages.stages())
    for (Operation *op : stage.ops)
      seconds[op] = opSeconds(op, machine);
  for (ArrayRef<Operation *> ops : {stages.lossOps(), stages.backwardOps()})
    for (Operation *op : ops)
      seconds[op] = opSeconds(op, machine);
  splitBackward();
  for (int64_t k = 0; k < stages.size(); ++k)
    addStage(k);
  // The loss is the last stage; its backward pass starts the backward chain.
  Stage loss;
  loss.input = loss.inputGradient =
      bytesOf(stages.stages().back().output.getType());
  StageOption turn;
  turn.backwardWorkspace =
      passing.back() + transient.back() - loss.inputGradient;
  for (Operation *op : segments.back())
    turn.backward += seconds.lookup(op);
  loss.options = {turn};
  menus.chain.stages.push_back(std::move(loss));
  menus.saved.push_back({0});
  menus.forwardHeavy.push_back(0);
  menus.backwardHeavy.push_back(llvm::count_if(segments.back(), isHeavyOp));
  return std::move(menus);
}

StageMenus kiln::buildStageMenus(const StageChain &stages,
                                 const Machine &machine) {
  return MenuBuilder(stages, machine).run();
}

std::vector<ChainOp> StageMenus::keepAll() const {
  std::vector<ChainOp> ops;
  for (int32_t k = 0; k < chain.size(); ++k)
    ops.push_back({ChainOpKind::ForwardSave, k,
                   static_cast<int32_t>(chain.stages[k].options.size()) - 1});
  for (int32_t k = chain.size() - 1; k >= 0; --k)
    ops.push_back({ChainOpKind::Backward, k});
  return ops;
}

void StageMenus::calibrate(llvm::ArrayRef<int64_t> forward,
                           llvm::ArrayRef<int64_t> backward) {
  int64_t present = chain.value(0);
  for (int32_t k = 0; k < chain.size(); ++k) {
    Stage &stage = chain.stages[k];
    const StageOption most = stage.options.back();
    present += most.saved;
    if (forward[k] >= 0) {
      int64_t error = forward[k] - present - most.forwardWorkspace;
      stage.fastForwardWorkspace += error;
      for (StageOption &option : stage.options)
        option.forwardWorkspace += error;
    }
    if (backward[k] >= 0) {
      int64_t error = backward[k] - present - chain.gradient(k) -
                      chain.gradient(k + 1) - most.backwardWorkspace;
      for (StageOption &option : stage.options)
        option.backwardWorkspace += error;
    }
  }
}

void StageMenus::multiplyResiduals(int64_t inFlight) {
  for (auto [k, stage] : llvm::enumerate(chain.stages)) {
    stage.input *= inFlight;
    if (static_cast<int32_t>(k) + 1 < chain.size())
      for (auto [option, bytes] :
           llvm::zip_equal(stage.options, materialized[k]))
        option.saved = (option.saved - bytes) * inFlight + bytes;
  }
}

RecomputeSchedule StageMenus::scheduleOf(llvm::ArrayRef<ChainOp> ops) const {
  RecomputeSchedule schedule;
  for (const ChainOp &op : ops) {
    if (op.stage + 1 == chain.size())
      continue; // A recompute schedule has no entry for the loss.
    StageRun run{op.kind, op.stage};
    if (run.saves())
      run.saved = saved[op.stage][op.option];
    schedule.push_back(run);
  }
  return schedule;
}
