//===- FormDispatches.cpp - Group ops into dispatches -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A group is a set of row ops over one row space that will be one kernel.
// Groups grow in program order: an op joins a group that produces or also reads
// one of its operands. The group then stands either at the op's place or at its
// own old place, whichever keeps every value defined before its uses; nothing
// outside the group ever moves. A set of ops is one kernel if it has a row
// program, which RowPrograms builds once: later passes that ask for the program
// of the dispatch get the one that was built here.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "DenseCopies.h"
#include "Epilogues.h"
#include "Precision.h"
#include "kiln/Dialect/Kiln/Transforms/Fusion.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "llvm/ADT/SetVector.h"

namespace kiln {
#define GEN_PASS_DEF_FORMDISPATCHES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Ops in one kernel: beyond this, registers spill and nothing is gained.
static constexpr size_t kMostOpsPerGroup = 24;

namespace {

struct Group {
  SmallVector<Operation *> members; ///< in program order
  RowSpace space;
  int64_t position = 0; ///< program order of the op at whose place it stands
};

class DispatchFormer {
public:
  DispatchFormer(Block &block, Operation *phase, bool fuse,
                 const TargetBackend &target, RowPrograms &rowPrograms)
      : block(block), phase(phase), fuse(fuse), target(target),
        rowPrograms(rowPrograms) {}
  LogicalResult run();

private:
  LogicalResult addOp(Operation *op);
  bool tryJoin(Group *group, Operation *op);
  bool tryMerge(Group *into, Group *from);
  bool isOneKernel(const Group &group);
  std::optional<RowSpace> commonSpace(RowSpace a, RowSpace b);
  std::optional<int64_t> placeOf(const Group &group, int64_t early,
                                 int64_t late);
  int64_t definitionOf(Value value);
  void emit(Group &group);
  void wrap(Operation *op, Family family);

  /// Forward ops and backward ops are never one kernel: a value recomputed for
  /// the backward pass would then exist from the forward pass on. Nor are ops
  /// on the host and on the device.
  bool mayFuse(Operation *a, Operation *b) {
    if (a->hasAttr("host") != b->hasAttr("host"))
      return false;
    return !phase || phase->getBlock() != &block ||
           phase->isBeforeInBlock(a) == phase->isBeforeInBlock(b);
  }

  Block &block;
  Operation *phase;
  bool fuse;
  const TargetBackend &target;
  RowPrograms &rowPrograms;
  SmallVector<Operation *> ops; ///< in program order
  DenseMap<Operation *, int64_t> order;
  DenseMap<Operation *, Group *> groupOf;
  std::vector<std::unique_ptr<Group>> groups;
};

} // namespace

/// Values computed outside of the group that it reads, in order of first use.
/// Constants are not among them: every group has its own copy.
static llvm::SetVector<Value> inputsOf(const Group &group) {
  llvm::SetVector<Value> inputs;
  for (Operation *op : group.members)
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(group.members, operand.getDefiningOp()) &&
          !isa_and_nonnull<ConstantOp>(operand.getDefiningOp()))
        inputs.insert(operand);
  return inputs;
}

static SmallVector<Value> outputsOf(const Group &group) {
  SmallVector<Value> outputs;
  for (Operation *op : group.members)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return !llvm::is_contained(group.members, user);
          }))
        outputs.push_back(result);
  return outputs;
}

/// The place in program order from which a value exists.
int64_t DispatchFormer::definitionOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &block)
    return -1;
  if (Group *group = groupOf.lookup(op))
    return group->position;
  // A view exists as soon as its source does.
  if (familyOf(op) == Family::View)
    return std::max(definitionOf(op->getOperand(0)), order.lookup(op));
  return order.lookup(op);
}

std::optional<RowSpace> DispatchFormer::commonSpace(RowSpace a, RowSpace b) {
  if (a.elements() != b.elements())
    return std::nullopt;
  if (a.flexible)
    return b;
  if (b.flexible || (a.rows == b.rows && a.cols == b.cols))
    return a;
  return std::nullopt;
}

/// A position at which all inputs exist and before which no output is used:
/// the late one if possible, else the early one.
std::optional<int64_t> DispatchFormer::placeOf(const Group &group,
                                               int64_t early, int64_t late) {
  int64_t ready = -1, needed = INT64_MAX;
  for (Value input : inputsOf(group))
    ready = std::max(ready, definitionOf(input));
  for (Value output : outputsOf(group))
    for (Operation *user : output.getUsers()) {
      if (llvm::is_contained(group.members, user))
        continue;
      while (user->getBlock() != &block)
        user = user->getParentOp();
      Group *other = groupOf.lookup(user);
      needed = std::min(needed, other ? other->position : order.lookup(user));
    }
  for (int64_t place : {late, early})
    if (ready < place && place < needed)
      return place;
  return std::nullopt;
}

bool DispatchFormer::isOneKernel(const Group &group) {
  RowOps source;
  source.rows = group.space.rows;
  source.cols = group.space.cols;
  // Each constant precedes its first reader, as in the body that emit makes.
  for (Operation *op : group.members) {
    for (Value operand : op->getOperands())
      if (auto constant = operand.getDefiningOp<ConstantOp>())
        if (!llvm::is_contained(source.ops, constant.getOperation()))
          source.ops.push_back(constant);
    source.ops.push_back(op);
  }
  llvm::append_range(source.operands, inputsOf(group));
  source.results = outputsOf(group);
  const row::RowProgram *program = rowPrograms.get(source);
  return program && (group.members.size() == 1 || target.mayFuse(*program));
}

bool DispatchFormer::tryJoin(Group *group, Operation *op) {
  if (group->members.size() >= kMostOpsPerGroup ||
      !mayFuse(group->members.front(), op))
    return false;
  auto space =
      commonSpace(group->space, cast<RowOpInterface>(op).getRowSpace());
  if (!space)
    return false;
  Group candidate = *group;
  candidate.members.push_back(op);
  candidate.space = *space;
  auto place = placeOf(candidate, group->position, order.lookup(op));
  if (!place || order.lookup(op) - *place > kNearby || !isOneKernel(candidate))
    return false;
  candidate.position = *place;
  *group = candidate;
  groupOf[op] = group;
  return true;
}

bool DispatchFormer::tryMerge(Group *into, Group *from) {
  if (into == from ||
      into->members.size() + from->members.size() > kMostOpsPerGroup ||
      !mayFuse(into->members.front(), from->members.front()))
    return false;
  auto space = commonSpace(into->space, from->space);
  if (!space)
    return false;
  Group candidate;
  candidate.members = into->members;
  llvm::append_range(candidate.members, from->members);
  llvm::sort(candidate.members, [&](Operation *a, Operation *b) {
    return order.lookup(a) < order.lookup(b);
  });
  candidate.space = *space;
  int64_t late = std::max(into->position, from->position);
  auto place =
      placeOf(candidate, std::min(into->position, from->position), late);
  if (!place || late - *place > kNearby || !isOneKernel(candidate))
    return false;
  candidate.position = *place;
  for (Operation *op : from->members)
    groupOf[op] = into;
  from->members.clear();
  *into = candidate;
  return true;
}

LogicalResult DispatchFormer::addOp(Operation *op) {
  auto rowOp = cast<RowOpInterface>(op);
  auto group = std::make_unique<Group>();
  group->members = {op};
  group->space = rowOp.getRowSpace();
  group->position = order.lookup(op);
  if (!isOneKernel(*group))
    return op->emitOpError("has no row program for its shapes");

  Group *home = nullptr;
  if (fuse) {
    // Groups that make an operand come first, the latest one first; then groups
    // that read a large operand too.
    llvm::SetVector<Group *> candidates;
    SmallVector<Group *> makers;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        if (Group *maker = groupOf.lookup(def))
          makers.push_back(maker);
    llvm::sort(makers,
               [](Group *a, Group *b) { return a->position > b->position; });
    candidates.insert(makers.begin(), makers.end());
    SmallVector<Group *> readers;
    for (Value operand : op->getOperands()) {
      if (tensorTypeOf(operand).getNumElements() < group->space.elements())
        continue;
      for (Operation *user : operand.getUsers())
        if (Group *reader = groupOf.lookup(user))
          if (order.lookup(op) - reader->position <= kNearby)
            readers.push_back(reader);
    }
    llvm::sort(readers,
               [](Group *a, Group *b) { return a->position > b->position; });
    candidates.insert(readers.begin(), readers.end());
    for (Group *candidate : candidates) {
      if (!home) {
        if (tryJoin(candidate, op))
          home = candidate;
      } else if (llvm::is_contained(makers, candidate) &&
                 !candidate->members.empty()) {
        tryMerge(home, candidate);
      }
    }
  }
  if (!home) {
    groupOf[op] = group.get();
    groups.push_back(std::move(group));
  }
  return success();
}

/// Replaces the group by a dispatch at its place.
void DispatchFormer::emit(Group &group) {
  llvm::SetVector<Value> inputs = inputsOf(group);
  SmallVector<Value> outputs = outputsOf(group);
  OpBuilder builder(ops[group.position]);

  SmallVector<Location> locs;
  for (Operation *op : group.members)
    locs.push_back(op->getLoc());
  Location loc = builder.getFusedLoc(locs);
  auto dispatch = DispatchOp::create(
      builder, loc, ValueRange(outputs).getTypes(), Family::Row,
      inputs.getArrayRef(),
      builder.getDenseI64ArrayAttr({group.space.rows, group.space.cols}));
  dispatch.setHost(group.members.front()->hasAttr("host"));
  IRMapping mapping = openIsolatedBody(builder, dispatch, inputs.getArrayRef());
  for (Operation *op : group.members) {
    for (Value operand : op->getOperands())
      if (auto constant = operand.getDefiningOp<ConstantOp>())
        if (!mapping.contains(operand))
          builder.clone(*constant, mapping);
    builder.clone(*op, mapping);
  }
  SmallVector<Value> yielded;
  for (Value output : outputs)
    yielded.push_back(mapping.lookup(output));
  YieldOp::create(builder, loc, yielded);
  for (auto [output, result] : llvm::zip(outputs, dispatch.getResults()))
    output.replaceAllUsesWith(result);
}

/// A dispatch around one op of another family.
void DispatchFormer::wrap(Operation *op, Family family) {
  OpBuilder builder(op);
  Location loc = op->getLoc();
  llvm::SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  auto dispatch = DispatchOp::create(builder, loc, op->getResultTypes(), family,
                                     inputs.getArrayRef(), DenseI64ArrayAttr());
  IRMapping mapping = openIsolatedBody(builder, dispatch, inputs.getArrayRef());
  Operation *copy = builder.clone(*op, mapping);
  YieldOp::create(builder, loc, copy->getResults());
  op->replaceAllUsesWith(dispatch.getResults());
  op->erase();
}

LogicalResult DispatchFormer::run() {
  for (Operation &op : block) {
    order[&op] = ops.size();
    ops.push_back(&op);
  }
  SmallVector<std::pair<Operation *, Family>> others;
  for (Operation *op : ops) {
    auto dispatchable = dyn_cast<DispatchableOpInterface>(op);
    if (!dispatchable)
      return op->emitOpError("belongs to no dispatch family; an earlier pass "
                             "should have expanded it");
    if (isa<ConstantOp>(op))
      continue;
    Family family = dispatchable.getFamily();
    // A reshape inside a chain of row ops is part of the kernel.
    bool rowView = family == Family::View && fuse && isa<RowOpInterface>(op) &&
                   op->getOperand(0).getDefiningOp() &&
                   groupOf.lookup(op->getOperand(0).getDefiningOp());
    if (family == Family::Row) {
      if (failed(addOp(op)))
        return failure();
    } else if (rowView) {
      tryJoin(groupOf.lookup(op->getOperand(0).getDefiningOp()), op);
    } else if (family == Family::Scatter || family == Family::Rope ||
               family == Family::Permute || family == Family::Attention ||
               family == Family::Bucket || family == Family::Sketch) {
      others.push_back({op, family});
    }
  }
  // Constants that a library call, a view or the program's end reads need a
  // kernel.
  SmallVector<ConstantOp> copied;
  for (ConstantOp constant : block.getOps<ConstantOp>()) {
    if (llvm::all_of(constant->getUsers(),
                     [&](Operation *user) { return groupOf.lookup(user); }))
      copied.push_back(constant);
    else if (failed(addOp(constant)))
      return failure();
  }

  for (auto &group : groups)
    if (!group->members.empty())
      emit(*group);
  for (auto [op, family] : others)
    wrap(op, family);
  for (auto &group : groups)
    for (Operation *op : llvm::reverse(group->members))
      op->dropAllUses();
  for (auto &group : groups)
    for (Operation *op : llvm::reverse(group->members))
      op->erase();
  for (ConstantOp constant : copied)
    constant.erase();
  return success();
}

namespace {

struct FormDispatchesPass : kiln::impl::FormDispatchesBase<FormDispatchesPass> {
  using FormDispatchesBase::FormDispatchesBase;

  void runOnOperation() override {
    const TargetBackend *target = backendOf(getOperation());
    if (!target)
      return signalPassFailure();
    // From here on nothing merges equal ops, so repeated ones may stand bare.
    SmallVector<Operation *> regions;
    getOperation().walk([&](RecomputeOp op) { regions.push_back(op); });
    for (Operation *recompute : regions) {
      Block &body = recompute->getRegion(0).front();
      for (auto [argument, operand] :
           llvm::zip(body.getArguments(), recompute->getOperands()))
        argument.replaceAllUsesWith(operand);
      Operation *yield = body.getTerminator();
      recompute->replaceAllUsesWith(yield->getOperands());
      yield->erase();
      recompute->getBlock()->getOperations().splice(Block::iterator(recompute),
                                                    body.getOperations());
      recompute->erase();
    }
    auto &rowPrograms = getAnalysis<RowPrograms>();
    SmallVector<Block *> blocks;
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      program.walk([&](AccumulateOp loop) {
        blocks.push_back(&loop.getBody().front());
      });
      blocks.push_back(&program.getBlock());
    }
    for (Block *block : blocks) {
      auto phases = block->getOps<PhaseOp>();
      flattenConcats(*block);
      if (fuse)
        sinkCasts(*block);
      Operation *phase =
          phases.empty() ? nullptr : (*phases.begin()).getOperation();
      if (failed(
              DispatchFormer(*block, phase, fuse, *target, rowPrograms).run()))
        return signalPassFailure();
      if (fuse && epilogues && target->getFusionRules().tileEpilogues)
        formEpilogues(*block, phase, rowPrograms);
      if (phase)
        phase->erase();
      insertDenseCopies(*block, rowPrograms);
    }
  }
};

} // namespace
