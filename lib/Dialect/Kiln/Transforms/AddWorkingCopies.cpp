//===- AddWorkingCopies.cpp - Narrow copies of parameters -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowReads.h"
#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/IR/Owners.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"

namespace kiln {
#define GEN_PASS_DEF_ADDWORKINGCOPIES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Replaces an update by one that also returns a copy of the new parameter.
static Operation *withCopy(Operation *op, RankedTensorType copy) {
  OpBuilder builder(op);
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(op->getOperands());
  state.addTypes(op->getResultTypes());
  state.addTypes(copy);
  state.addAttributes(op->getAttrs());
  if (auto encoded = dyn_cast<EncodedUpdateOp>(op)) {
    Operation *inner = withCopy(encoded.getUpdate().getOperation(), copy);
    inner->getNextNode()->setOperands(inner->getResults());
    state.addRegion()->takeBody(encoded.getBody());
  }
  Operation *update = builder.create(state);
  op->replaceAllUsesWith(update->getResults().drop_back());
  op->erase();
  return update;
}

namespace {

struct AddWorkingCopiesPass
    : kiln::impl::AddWorkingCopiesBase<AddWorkingCopiesPass> {
  using AddWorkingCopiesBase::AddWorkingCopiesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<ElementType> found = support::elementTypeNamed(type);
    if (!found || !isNarrowFloat(irTypeOf(*found, &getContext()))) {
      module.emitError("type is '")
          << type << "', expected a narrow float such as bf16";
      return signalPassFailure();
    }
    element = irTypeOf(*found, &getContext());
    SymbolTable symbols(module);
    for (ProgramOp program : module.getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train) {
        std::vector<UpdatedShard> shards;
        for (StateUpdate &update : findUpdates(module, program))
          if (update.parameter.getTensorType().getElementType().isF32())
            addCopy(update, symbols, shards);
        gatherStates(std::move(shards), bucketBytes);
      }
  }

private:
  void addCopy(StateUpdate &update, SymbolTable &symbols,
               std::vector<UpdatedShard> &shards) {
    ModuleOp module = getOperation();
    StateOp parameter = update.parameter;
    auto updated = parameter.getTensorType().clone(element);
    ShardAttr shard = parameter.getShardAttr();
    bool isGathered = shard && shard.getAxis() == dataAxis() && gather;
    OpBuilder builder(parameter);
    builder.setInsertionPointAfter(parameter);
    auto copy =
        StateOp::create(builder, parameter.getLoc(),
                        (parameter.getSymName() + "." + type).str(),
                        isGathered ? shard.getType().clone(element) : updated,
                        Role::Mirror, parameter.getInit());
    copy.setOfAttr(FlatSymbolRefAttr::get(parameter.getSymNameAttr()));
    if (ShardAttr left = isGathered ? shard.getOuter() : shard)
      copy.setShardAttr(left.withElementType(element));
    // If the model already has a state with the symbol of the copy, insert()
    // renames the copy.
    symbols.insert(copy);

    Operation *op = withCopy(update.op, updated);
    if (isGathered) {
      shards.push_back({copy, op->getResults().back(), shard.getOwner()});
    } else {
      builder.setInsertionPointAfter(update.write);
      WriteOp::create(builder, op->getLoc(), copy.getSymName(),
                      op->getResults().back());
    }
    for (ProgramOp program : module.getOps<ProgramOp>())
      for (ReadOp read :
           llvm::make_early_inc_range(program.getBlock().getOps<ReadOp>()))
        if (read.getStateAttr().getAttr() == parameter.getSymNameAttr())
          replaceRead(read, copy, op);
  }

  /// Makes all users of `read`, except `update`, read `copy`. Replaces each
  /// all-gather of `read` by an all-gather of the copy, or by the copy itself
  /// if data parallelism does not divide the copy.
  void replaceRead(ReadOp read, StateOp copy, Operation *update) {
    OpBuilder builder(read);
    builder.setInsertionPointAfter(read);
    auto narrow = ReadOp::create(builder, read.getLoc(), copy.getTensorType(),
                                 copy.getSymName());
    SmallVector<AllGatherOp> gathers;
    for (Operation *user : read->getUsers())
      if (auto gathered = dyn_cast<AllGatherOp>(user))
        gathers.push_back(gathered);
    for (AllGatherOp gathered : gathers) {
      AllGatherOp narrowGather;
      Value replacement = narrow.getY();
      ShardAttr shard = copy.getShardAttr();
      if (shard && shard.getAxis() == dataAxis()) {
        builder.setInsertionPoint(gathered);
        narrowGather = AllGatherOp::create(
            builder, gathered.getLoc(), TypeRange(shard.getType()),
            narrow.getY(), gathered.getAxis(), ownersAttrOf(gathered));
        copyLayer(gathered, narrowGather);
        replacement = narrowGather.getOutputs().front();
      }
      replaceByNarrow(gathered.getOutputs().front(), replacement);
      if (narrowGather && narrowGather->use_empty())
        narrowGather.erase();
      gathered.erase();
    }
    if (gathers.empty())
      replaceByNarrow(read.getY(), narrow.getY(),
                      [&](OpOperand &use) { return use.getOwner() != update; });
    for (Operation *unused : {narrow.getOperation(), read.getOperation()})
      if (unused->use_empty())
        unused->erase();
  }

  Type element;
};

} // namespace
