//===- Recompute.cpp - Recomputation of forward stages ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass visits the backward ops in program order. At each backward op, a
// forward value has at most one live version, which the op reads: the original
// value if it was kept, or the result of the latest recomputation. If a
// backward op reads a value without a version, the ops that compute the value
// from existing versions are recomputed directly before the backward op. The
// results of these ops that later backward ops read become versions, too.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Recompute.h"

#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

#include <cmath>

namespace kiln {
#define GEN_PASS_DEF_RECOMPUTE
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln::support;
using namespace kiln;

//===----------------------------------------------------------------------===//
// Named schedules.
//===----------------------------------------------------------------------===//

using Kind = ChainOpKind;

/// Returns a schedule whose forward pass keeps only the inputs of segments.
/// When the backward pass reaches a segment, the forward pass of the segment is
/// run again and keeps all of its values. `starts` contains the first stage of
/// each segment, so starts[0] is 0.
static RecomputeSchedule segmented(ArrayRef<int64_t> starts, int64_t stages) {
  RecomputeSchedule schedule;
  for (int64_t k = 0; k < stages; ++k)
    schedule.push_back({llvm::is_contained(starts, k) ? Kind::ForwardCheckpoint
                                                      : Kind::ForwardDrop,
                        k});
  int64_t end = stages;
  for (int64_t start : llvm::reverse(starts)) {
    for (int64_t k = start; k < end; ++k)
      schedule.push_back({Kind::ForwardSave, k});
    for (int64_t k = end - 1; k >= start; --k)
      schedule.push_back({Kind::Backward, k});
    end = start;
  }
  return schedule;
}

std::optional<RecomputeSchedule> kiln::namedSchedule(StringRef name,
                                                     const StageChain &chain) {
  int64_t stages = chain.size();
  SmallVector<int64_t> starts;
  if (name == "none") {
    RecomputeSchedule schedule;
    for (int64_t k = 0; k < stages; ++k)
      schedule.push_back({Kind::ForwardSave, k});
    for (int64_t k = stages - 1; k >= 0; --k)
      schedule.push_back({Kind::Backward, k});
    return schedule;
  }
  if (name == "full") {
    for (int64_t k = 0; k < stages; ++k)
      starts.push_back(k);
    return segmented(starts, stages);
  }
  if (name == "blocks") {
    for (int64_t k = 0; k < stages; ++k)
      if (k == 0 || !chain.stages()[k].layer ||
          chain.stages()[k].layer != chain.stages()[k - 1].layer)
        starts.push_back(k);
    return segmented(starts, stages);
  }
  if (name == "sqrt") {
    auto segments = static_cast<int64_t>(std::lround(std::sqrt(stages)));
    for (int64_t s = 0; s < segments; ++s)
      starts.push_back(stages * s / segments);
    return segmented(starts, stages);
  }
  if (name == "poor") {
    RecomputeSchedule result;
    for (int64_t k = 0; k < stages; ++k)
      result.push_back(
          {k == 0 ? Kind::ForwardCheckpoint : Kind::ForwardDrop, k});
    for (int64_t last = stages - 1; last >= 0; --last) {
      for (int64_t k = 0; k < last; ++k)
        result.push_back(
            {k == 0 ? Kind::ForwardCheckpoint : Kind::ForwardDrop, k});
      result.push_back({Kind::ForwardSave, last});
      result.push_back({Kind::Backward, last});
    }
    return result;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Application of schedules.
//===----------------------------------------------------------------------===//

namespace {

class Replayer {
public:
  Replayer(const StageChain &chain, const RecomputeSchedule &schedule)
      : chain(chain), schedule(schedule) {}
  void run();

private:
  void keepForward();
  void findStarts();
  void advance(int64_t stage, Operation *before);
  void repeat(Operation *before, ArrayRef<Value> wanted,
              llvm::function_ref<bool(Value)> keep);
  void readVersions(Operation *op);

  const StageChain &chain;
  const RecomputeSchedule &schedule;
  size_t next = 0; ///< Index in `schedule` of the run to execute next.
  /// Maps a forward value to its live version, which is the kept or the
  /// recomputed value. A value that is not in memory has no version.
  DenseMap<Value, Value> versions;
  /// Maps an op to the stages whose backward pass begins at the op.
  DenseMap<Operation *, SmallVector<int64_t>> starts;
  DenseMap<Operation *, int64_t> order; ///< Position of each backward op.
};

} // namespace

/// Adds to `versions` the values that the forward pass keeps for the backward
/// pass.
void Replayer::keepForward() {
  for (; next < size_t(chain.size()); ++next) {
    const StageRun &run = schedule[next];
    const ForwardStage &stage = chain.stages()[run.stage];
    if (stage.input && !run.dropsInput())
      versions[stage.input] = stage.input;
    if (!run.saves())
      continue;
    for (auto [i, residual] : llvm::enumerate(stage.residuals))
      if (i >= 64 || run.saved >> i & 1)
        versions[residual] = residual;
  }
  // The output of the last stage is kept for the loss.
  if (chain.size())
    versions[chain.stages().back().output] = chain.stages().back().output;
}

/// Finds the op at which the backward pass of each stage i begins: the first
/// backward op that reads a value of a stage j <= i. The backward pass of stage
/// i + 1 begins at the same op or before it.
void Replayer::findStarts() {
  for (auto [i, op] : llvm::enumerate(chain.backwardOps()))
    order[op] = i;
  int64_t lowest = chain.size();
  for (Operation *op : chain.backwardOps()) {
    int64_t stage = lowest;
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (int64_t reading = chain.stageReading(operand); reading >= 0)
          stage = std::min(stage, reading);
    });
    for (; lowest > stage; --lowest)
      starts[op].push_back(lowest - 1);
  }
}

/// Recomputes forward ops before the op `before`, so that `versions` contains a
/// live version (the original or a recomputed copy) of each value in `wanted`.
/// Adds the versions of other results of these ops if `keep` accepts them.
void Replayer::repeat(Operation *before, ArrayRef<Value> wanted,
                      llvm::function_ref<bool(Value)> keep) {
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> worklist(wanted.begin(), wanted.end());
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    // Also recompute fixed values, which depend only on states and constants.
    // Otherwise they would be live from the forward pass until `before`.
    if (!op || versions.contains(value) ||
        (chain.stageOf(op) < 0 && !chain.isFixed(op)) || !ops.insert(op))
      continue;
    llvm::append_range(worklist, op->getOperands());
  }
  if (ops.empty())
    return;
  SmallVector<Operation *> sorted = ops.takeVector();
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });

  llvm::SetVector<Value> inputs;
  SmallVector<Value> results;
  llvm::DenseSet<Value> made;
  for (Operation *op : sorted) {
    for (Value operand : op->getOperands())
      if (!made.contains(operand))
        inputs.insert(operand);
    for (Value result : op->getResults()) {
      made.insert(result);
      if (versions.contains(result))
        continue;
      if (llvm::is_contained(wanted, result) || keep(result))
        results.push_back(result);
    }
  }

  SmallVector<Value> operands;
  for (Value input : inputs)
    operands.push_back(versions.lookup_or(input, input));
  SmallVector<Location> locs;
  for (Operation *op : sorted)
    locs.push_back(op->getLoc());
  OpBuilder builder(before);
  Location loc = locs.back();
  auto recompute = RecomputeOp::create(
      builder, loc, ValueRange(results).getTypes(), operands);
  IRMapping mapping =
      openIsolatedBody(builder, recompute, inputs.getArrayRef());
  for (Operation *op : sorted)
    builder.clone(*op, mapping);
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(mapping.lookup(result));
  YieldOp::create(builder, loc, yielded);
  for (auto [result, version] : llvm::zip(results, recompute.getResults()))
    versions[result] = version;
}

/// Executes the schedule up to the backward run of `stage`.
void Replayer::advance(int64_t stage, Operation *before) {
  // A forward run is one execution of the forward pass of a stage. A run that
  // only drops its input is emitted together with the next run that keeps a
  // value. The version of a dropped input (the original or a recomputed copy)
  // therefore remains live until then.
  SmallVector<Value> dropped;
  auto make = [&](ArrayRef<Value> wanted) {
    repeat(before, wanted, [](Value) { return false; });
    for (Value value : dropped)
      versions.erase(value);
    dropped.clear();
  };
  for (; next < schedule.size(); ++next) {
    const StageRun &run = schedule[next];
    const ForwardStage &current = chain.stages()[run.stage];
    if (run.kind == Kind::Backward) {
      if (run.stage != stage)
        continue;
      if (current.input)
        make(current.input);
      ++next;
      return;
    }
    if (!run.dropsInput() && current.input)
      make(current.input);
    // If the run after `run` is the backward run of the same stage, do not
    // recompute the stage here: each value is recomputed before the first
    // backward op that reads it.
    bool last = next + 1 < schedule.size() &&
                schedule[next + 1].kind == Kind::Backward &&
                schedule[next + 1].stage == run.stage;
    if (run.saves() && !last) {
      SmallVector<Value> wanted;
      for (auto [i, residual] : llvm::enumerate(current.residuals))
        if (i >= 64 || run.saved >> i & 1)
          wanted.push_back(residual);
      wanted.push_back(current.output);
      make(wanted);
    }
    if (run.dropsInput() && current.input)
      dropped.push_back(current.input);
  }
}

/// Replaces each forward value that a backward op reads by its version, which
/// is the kept or the recomputed value. If a forward value has no version,
/// recomputes it first.
void Replayer::readVersions(Operation *op) {
  SmallVector<Value> missing;
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (def && chain.stageOf(def) >= 0 && !versions.contains(operand) &&
        !llvm::is_contained(missing, operand))
      missing.push_back(operand);
  }
  if (!missing.empty()) {
    int64_t position = order.lookup(op);
    repeat(op, missing, [&](Value value) {
      return llvm::any_of(value.getUsers(), [&](Operation *user) {
        auto found = order.find(user);
        return found != order.end() && found->second > position;
      });
    });
  }
  for (OpOperand &operand : op->getOpOperands())
    if (Value version = versions.lookup(operand.get()))
      operand.set(version);
}

void Replayer::run() {
  findStarts();
  keepForward();
  for (Operation *op : chain.backwardOps()) {
    for (int64_t stage : starts.lookup(op))
      advance(stage, op);
    readVersions(op);
  }
}

void kiln::applyRecompute(const StageChain &chain,
                          const RecomputeSchedule &schedule) {
  Replayer(chain, schedule).run();
}

/// Returns true if a materialization (a residual that depends only on states
/// and constants, see StageChain) is gathered from the shards of a state, or is
/// computed from a gathered value. Returns false for all other values.
static bool isGathered(Value value, const StageChain &chain) {
  Operation *op = value.getDefiningOp();
  if (!op || !chain.isMaterialization(op))
    return false;
  return isa<AllGatherOp>(op) ||
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return isGathered(operand, chain);
         });
}

/// Makes the runs of the forward pass release gathered parameters, so that the
/// backward pass gathers them again. Keeping the whole parameters would use as
/// much memory as if they were not divided. Returns true if a run releases a
/// parameter.
static bool releaseGathered(const StageChain &chain,
                            RecomputeSchedule &schedule) {
  bool changed = false;
  for (StageRun &run : MutableArrayRef(schedule).take_front(chain.size())) {
    if (!run.saves())
      continue;
    for (auto [i, residual] :
         llvm::enumerate(chain.stages()[run.stage].residuals))
      if (i < 64 && isGathered(residual, chain)) {
        run.saved &= ~(uint64_t(1) << i);
        changed = true;
      }
  }
  return changed;
}

namespace {

struct RecomputePass : kiln::impl::RecomputeBase<RecomputePass> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      if (program.getKind() != ProgramKind::Train)
        continue;
      StageChain chain(program);
      auto schedule = namedSchedule(policy, chain);
      if (!schedule) {
        program.emitError() << "recompute policy is '" << policy
                            << "', expected none, full, blocks, sqrt or poor";
        return signalPassFailure();
      }
      if (releaseGathered(chain, *schedule) || policy != "none")
        applyRecompute(chain, *schedule);
      if (hoist)
        hoistMaterializations(chain);
    }
  }
};

} // namespace
