//===- ShardParameters.cpp - Shards in place of whole parameters ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/IR/Owners.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_SHARDPARAMETERS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

/// Readers of a parameter that share one all-gather.
struct Readers {
  LayerAttr layer; ///< The layer of the first reader.
  int64_t passage; ///< Number of layer changes up to the first reader.
  SmallVector<Operation *, 4> ops;
};

} // namespace

/// Returns the block that contains all users of a value, or the block of the
/// value if the users are in several blocks.
static Block *blockOfUsers(Value value) {
  Block *block = nullptr;
  for (Operation *user : value.getUsers()) {
    Block *home = user->getBlock();
    block = !block || block == home ? home : value.getParentBlock();
  }
  return block;
}

/// Assigns a number to each op of a block. The number increases by 1 where the
/// layer changes. An op without a layer has the number of the op before it.
static DenseMap<Operation *, int64_t> numberPassages(Block &block) {
  DenseMap<Operation *, int64_t> passages;
  LayerAttr last;
  int64_t number = 0;
  for (Operation &op : block) {
    if (LayerAttr layer = getLayer(&op); layer && layer != last) {
      last = layer;
      ++number;
    }
    passages[&op] = number;
  }
  return passages;
}

/// Divides the readers of a parameter into groups. In the forward pass, readers
/// in different layers are far apart, so each layer gathers the parameter
/// itself. A reader in the backward pass belongs to the group of its layer. The
/// memory plan decides whether the gathered parameter of this group is kept for
/// the backward pass or gathered again.
static SmallVector<Readers> groupReaders(Value whole, Block &block) {
  DenseMap<Operation *, int64_t> passages = numberPassages(block);
  SmallVector<Operation *> users;
  for (Operation *user : whole.getUsers())
    users.push_back(block.findAncestorOpInBlock(*user));
  llvm::sort(users, [](Operation *a, Operation *b) {
    return a != b && a->isBeforeInBlock(b);
  });
  auto phases = block.getOps<PhaseOp>();
  Operation *phase = phases.empty() ? nullptr : *phases.begin();
  SmallVector<Readers> groups;
  for (Operation *user : users) {
    bool isBackward = phase && phase->isBeforeInBlock(user);
    int64_t passage = passages.lookup(user);
    // If several groups match, choose the last one, which is the nearest to
    // the backward pass.
    auto found = llvm::find_if(llvm::reverse(groups), [&](Readers &readers) {
      return isBackward ? readers.layer == getLayer(user)
                        : readers.passage == passage;
    });
    if (found != groups.rend())
      found->ops.push_back(user);
    else if (isBackward && !groups.empty())
      groups.back().ops.push_back(user);
    else
      groups.push_back({getLayer(user), passage, {user}});
  }
  return groups;
}

/// If all readers cast a parameter to the same narrower element type, returns
/// this type. Otherwise returns null. Casting shards before they are gathered
/// sends fewer bytes.
static Type narrowTypeOf(const Readers &readers) {
  auto first = dyn_cast<CastOp>(readers.ops.front());
  if (!first ||
      bytesOf(first.getY().getType()) >= bytesOf(first.getX().getType()))
    return Type();
  for (Operation *op : readers.ops)
    if (auto cast = dyn_cast<CastOp>(op);
        !cast || cast.getY().getType() != first.getY().getType())
      return Type();
  return tensorTypeOf(first.getY()).getElementType();
}

/// Returns the first op of a block that reads the result of one of `casts`, or
/// the first cast if there is none.
static Operation *firstReaderOf(ArrayRef<Operation *> casts, Block &block) {
  Operation *first = nullptr;
  for (Operation *cast : casts)
    for (Operation *user : cast->getUsers())
      if (Operation *reader = block.findAncestorOpInBlock(*user);
          reader && (!first || reader->isBeforeInBlock(first)))
        first = reader;
  return first ? first : casts.front();
}

/// Returns the layer of an op. If the op has no layer, like the casts that
/// kiln-set-precision adds, returns the layer of a reader of its results.
static LayerAttr layerOf(Operation *op) {
  LayerAttr layer = getLayer(op);
  for (Operation *user : op->getUsers())
    layer = layer ? layer : getLayer(user);
  return layer;
}

/// Makes a program read the shard of a parameter, and gather the parameter for
/// all readers except updates.
static void gatherRead(ReadOp read, StateOp state, bool castShards) {
  OpBuilder builder(read);
  Value whole = read.getY();
  auto shard = ReadOp::create(builder, read.getLoc(), state.getType(),
                              state.getSymName());
  for (Operation *user : llvm::make_early_inc_range(whole.getUsers()))
    if (auto take = dyn_cast<TakeShardOp>(user);
        take && take.getAxis() == state.getShardAttr().getAxis()) {
      take.replaceAllUsesWith(shard.getY());
      take.erase();
    }
  if (Block *block = blockOfUsers(whole))
    for (const Readers &readers : groupReaders(whole, *block)) {
      Value part = shard.getY();
      RankedTensorType gathered = tensorTypeOf(whole);
      Type narrow = castShards ? narrowTypeOf(readers) : Type();
      Operation *first = readers.ops.front();
      LayerAttr layer = layerOf(first);
      if (narrow)
        first = firstReaderOf(readers.ops, *block);
      builder.setInsertionPoint(first);
      if (narrow) {
        gathered = gathered.clone(narrow);
        auto cast = CastOp::create(builder, first->getLoc(),
                                   tensorTypeOf(part).clone(narrow), part);
        setLayer(cast, layer);
        part = cast;
      }
      auto gather =
          AllGatherOp::create(builder, read.getLoc(), TypeRange(gathered), part,
                              state.getShardAttr().getAxis(),
                              ownersAttr(builder.getContext(), ownerOf(state)));
      setLayer(gather, layer);
      if (narrow) {
        for (Operation *cast : readers.ops) {
          cast->getResult(0).replaceAllUsesWith(gather.getOutputs().front());
          cast->erase();
        }
        continue;
      }
      whole.replaceUsesWithIf(gather.getOutputs().front(), [&](OpOperand &use) {
        return llvm::is_contained(
            readers.ops, block->findAncestorOpInBlock(*use.getOwner()));
      });
    }
  read.erase();
}

namespace {

struct ShardParametersPass
    : kiln::impl::ShardParametersBase<ShardParametersPass> {
  using ShardParametersBase::ShardParametersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    for (ProgramOp program : module.getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train)
        for (AllGatherOp gather : llvm::make_early_inc_range(
                 program.getBlock().getOps<AllGatherOp>()))
          shardWritten(gather, symbols);
  }

private:
  /// Makes each rank store only its shard of the trained states that are
  /// written with the results of an all-gather over data-parallel ranks.
  void shardWritten(AllGatherOp gather, SymbolTable &symbols) {
    bool divides = llvm::all_of(gather.getOutputs(), [&](Value output) {
      auto write = output.hasOneUse() ? dyn_cast<WriteOp>(*output.user_begin())
                                      : WriteOp();
      return write && symbols.lookup<StateOp>(write.getState()).isTrainable();
    });
    if (!divides || gather.getAxis() != dataAxis())
      return;
    for (auto [i, shard, whole] :
         llvm::enumerate(gather.getInputs(), gather.getOutputs())) {
      auto write = cast<WriteOp>(*whole.user_begin());
      auto state = symbols.lookup<StateOp>(write.getState());
      state.setShardAttr(ShardAttr::get(
          &getContext(), state.getTensorType(), gather.getAxis(), /*blocks=*/1,
          ownerOfTensor(gather, i), state.getShardAttr()));
      state.setTypeAttr(TypeAttr::get(shard.getType()));
      write.getValueMutable().assign(shard);
      write->moveAfter(shard.getDefiningOp());
      // gatherRead() adds a read before the read that it replaces, so the loop
      // does not visit the added read.
      for (ProgramOp program : getOperation().getOps<ProgramOp>())
        for (ReadOp read :
             llvm::make_early_inc_range(program.getBlock().getOps<ReadOp>()))
          if (read.getStateAttr().getAttr() == state.getSymNameAttr())
            gatherRead(read, state, castShards);
    }
    gather.erase();
  }
};

} // namespace
