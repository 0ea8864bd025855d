//===- FormDispatches.cpp - Fusion of ops into dispatches -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A group is a set of row ops that iterate over the same rows and columns and
// become one kernel. Groups grow in program order: an op joins a group that
// computes or reads an operand of the op. The group then moves to the position
// of the op if every value would still be defined before its uses, and keeps
// its position otherwise. Ops outside the group never move. A set of ops can be
// one kernel if it has a row program, which contains the expressions for the
// elements of its results (see RowProgram.h). RowPrograms builds and caches
// this program for later passes.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "DenseCopies.h"
#include "Epilogues.h"
#include "Precision.h"
#include "StateGathers.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/IR/Owners.h"
#include "kiln/Dialect/Kiln/Transforms/Fusion.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "llvm/ADT/SetVector.h"

namespace kiln {
#define GEN_PASS_DEF_FORMDISPATCHES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Maximum number of ops in one kernel. Kernels with more ops spill registers.
static constexpr size_t kMostOpsPerGroup = 24;

namespace {

struct Group {
  SmallVector<Operation *> members; ///< Ops in program order.
  RowSpace space;
  int64_t position = 0; ///< Position of the dispatch in program order.
};

class DispatchFormer {
public:
  DispatchFormer(Block &block, Operation *phase, bool fuse,
                 const TargetBackend &target, RowPrograms &rowPrograms)
      : block(block), owners(getProgramOf(block)), phase(phase), fuse(fuse),
        target(target), rowPrograms(rowPrograms) {}
  LogicalResult run();

private:
  static ProgramOp getProgramOf(Block &block) {
    Operation *parent = block.getParentOp();
    auto program = dyn_cast<ProgramOp>(parent);
    return program ? program : parent->getParentOfType<ProgramOp>();
  }
  LogicalResult addOp(Operation *op);
  bool tryJoin(Group *group, Operation *op);
  bool tryMerge(Group *into, Group *from);
  bool isOneKernel(const Group &group);
  std::optional<RowSpace> commonSpace(RowSpace a, RowSpace b);
  std::optional<int64_t> placeOf(const Group &group, int64_t early,
                                 int64_t late);
  int64_t definitionOf(Value value);
  void emit(Group &group);
  void wrap(KernelOpInterface op);

  /// Returns true if two ops may be in one kernel. The following pairs may not:
  ///   - a forward op and a backward op, because a value that is recomputed for
  ///     the backward pass would then be live from the forward pass on;
  ///   - an op on the host and an op on the device;
  ///   - ops that different ranks execute.
  bool mayFuse(Operation *a, Operation *b) {
    if (memoryOf(a) != memoryOf(b) || owners.ownerOf(a) != owners.ownerOf(b))
      return false;
    return !phase || phase->getBlock() != &block ||
           phase->isBeforeInBlock(a) == phase->isBeforeInBlock(b);
  }

  Block &block;
  Owners owners;
  Operation *phase;
  bool fuse;
  const TargetBackend &target;
  RowPrograms &rowPrograms;
  SmallVector<Operation *> ops; ///< Ops in program order.
  DenseMap<Operation *, int64_t> order;
  DenseMap<Operation *, Group *> groupOf;
  std::vector<std::unique_ptr<Group>> groups;
};

} // namespace

/// Returns the values that a group of ops reads but does not compute, in order
/// of first use. Constants are excluded, because they are cloned into every
/// group.
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

/// Returns the position in program order at which a value is defined.
int64_t DispatchFormer::definitionOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &block)
    return -1;
  if (Group *group = groupOf.lookup(op))
    return group->position;
  // The position of a view is the maximum of the position of the view op and
  // the position at which the source of the view is defined.
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

/// Returns the position of a group: `late` if it is valid, or else `early` if
/// it is valid, or else std::nullopt. A position is valid if all inputs of the
/// group are defined before the position and all outputs are used after it.
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
  // Insert each constant before its first reader, as emit() does.
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
    return op->emitOpError("cannot run as one kernel, because kiln generates "
                           "no code for this op with these shapes");

  Group *home = nullptr;
  if (fuse) {
    // First try the groups that compute an operand of the op. Then try the
    // groups that read a large operand of the op, so that one kernel reads this
    // operand only once. Each of the two lists is in descending order of
    // position.
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

/// Replaces the ops of a group by a dispatch at the position of the group.
void DispatchFormer::emit(Group &group) {
  llvm::SetVector<Value> inputs = inputsOf(group);
  SmallVector<Value> outputs = outputsOf(group);
  OpBuilder builder(ops[group.position]);

  SmallVector<Location> locs;
  for (Operation *op : group.members)
    locs.push_back(op->getLoc());
  Location loc = builder.getFusedLoc(locs);
  auto dispatch = DispatchOp::create(
      builder, loc, ValueRange(outputs).getTypes(),
      stringifyFamily(Family::Row), inputs.getArrayRef(),
      builder.getDenseI64ArrayAttr({group.space.rows, group.space.cols}));
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

/// Wraps an op of Family::Kernel in a dispatch of its own.
void DispatchFormer::wrap(KernelOpInterface op) {
  OpBuilder builder(op);
  Location loc = op->getLoc();
  llvm::SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  auto dispatch = DispatchOp::create(builder, loc, op->getResultTypes(),
                                     op.getKernelFamily(), inputs.getArrayRef(),
                                     DenseI64ArrayAttr());
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
  SmallVector<KernelOpInterface> kernels;
  for (Operation *op : ops) {
    auto dispatchable = dyn_cast<DispatchableOpInterface>(op);
    if (!dispatchable)
      return op->emitOpError(
          "does not implement DispatchableOpInterface; a pass before "
          "kiln-form-dispatches should have expanded this op");
    if (isa<ConstantOp>(op))
      continue;
    Family family = dispatchable.getFamily();
    // A reshape in a chain of row ops becomes part of the kernel.
    bool rowView = family == Family::View && fuse && isa<RowOpInterface>(op) &&
                   op->getOperand(0).getDefiningOp() &&
                   groupOf.lookup(op->getOperand(0).getDefiningOp());
    if (family == Family::Row) {
      if (failed(addOp(op)))
        return failure();
    } else if (rowView) {
      tryJoin(groupOf.lookup(op->getOperand(0).getDefiningOp()), op);
    } else if (family == Family::Kernel) {
      kernels.push_back(cast<KernelOpInterface>(op));
    }
  }
  // If all readers of a constant are in groups, the constant is cloned into the
  // groups. Otherwise the constant must be stored in memory, by a kernel.
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
  for (KernelOpInterface op : kernels)
    wrap(op);
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
    // Inline the recompute regions. They prevent passes such as CSE from
    // merging recomputed ops with the equal forward ops. From this pass on, no
    // pass merges equal ops, so the regions are no longer needed.
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
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      joinGathers(program.getBlock());
      for (auto op : program.getBlock().getOps<MicrobatchesOp>())
        if (!op.isDivided())
          joinGathers(op.getBody());
    }
    // Remove the layer attributes, so that kernels of different layers are
    // merged if they are otherwise equal.
    getOperation().walk([](Operation *op) { setLayer(op, LayerAttr()); });
    auto &rowPrograms = getAnalysis<RowPrograms>();
    SmallVector<Block *> blocks;
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      for (auto op : program.getBlock().getOps<MicrobatchesOp>()) {
        if (failed(requireUndivided(op)))
          return signalPassFailure();
        blocks.push_back(&op.getBody());
      }
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
    }
    if (fuse && epilogues &&
        failed(formEpilogues(getOperation(), EpilogueKind::Tiles, rowPrograms)))
      return signalPassFailure();
    for (Block *block : blocks) {
      for (PhaseOp phase : llvm::make_early_inc_range(block->getOps<PhaseOp>()))
        phase.erase();
      insertDenseCopies(*block, rowPrograms);
    }
  }
};

} // namespace
