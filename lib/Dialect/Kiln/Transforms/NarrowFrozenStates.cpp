//===- NarrowFrozenStates.cpp - Storage type of frozen parameters ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass does not change results if the weights come from files with the
// element type `storage` of kiln.model: this type represents all values of a
// frozen state exactly, and every reader converts them as before. States of
// integers and states that a program writes keep their type: the storage type
// does not represent their values exactly.
//
//===----------------------------------------------------------------------===//

#include "NarrowReads.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Support/ElementConversion.h"

namespace kiln {
#define GEN_PASS_DEF_NARROWFROZENSTATES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Changes the type that a read of a frozen parameter returns.
static void narrow(ReadOp read, RankedTensorType type) {
  OpBuilder builder(read);
  auto narrowed =
      ReadOp::create(builder, read.getLoc(), type, read.getState());
  replaceByNarrow(read.getY(), narrowed.getY());
  read.erase();
}

namespace {

struct NarrowFrozenStatesPass
    : kiln::impl::NarrowFrozenStatesBase<NarrowFrozenStatesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr);
    auto storage = model ? model.getAs<TypeAttr>("storage") : TypeAttr();
    if (!storage || !isStoredReal(storage.getValue()))
      return;
    Type element = storage.getValue();
    llvm::DenseSet<StringAttr> written = findWritten(module);
    llvm::StringMap<RankedTensorType> narrowed;
    for (StateOp state : module.getOps<StateOp>()) {
      RankedTensorType type = state.getTensorType();
      if (state.getRole() != Role::Parameter || !state.getFrozen() ||
          written.contains(state.getSymNameAttr()) ||
          !isStoredReal(type.getElementType()) ||
          elementBytes(element) >= elementBytes(type))
        continue;
      type = type.clone(element);
      state.setType(type);
      if (ShardAttr shard = state.getShardAttr())
        state.setShardAttr(shard.withElementType(element));
      narrowed[state.getSymName()] = type;
    }
    // Collect the reads first, because narrow() erases ops that follow them.
    SmallVector<ReadOp> reads;
    module.walk([&](ReadOp read) {
      if (narrowed.contains(read.getState()))
        reads.push_back(read);
    });
    for (ReadOp read : reads)
      narrow(read, narrowed[read.getState()]);
  }
};

} // namespace
