//===- NarrowFrozenStates.cpp - Storage type of frozen parameters ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass is exact if the weights come from files whose type is `storage`: a
// frozen state holds values of this type in any case, and every reader converts
// them as before.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Support/ElementConversion.h"

namespace kiln {
#define GEN_PASS_DEF_NARROWFROZENSTATES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Makes a lookup in a table that has become narrow return narrow rows, and
/// converts these. Returns false if no lookup can read the type of the table.
static bool narrowLookup(EmbeddingOp lookup) {
  Type element = lookup.getTable().getType().getElementType();
  if (!isComputedReal(element))
    return false;
  RankedTensorType type = tensorTypeOf(lookup.getY());
  if (type.getElementType() == element)
    return true;
  lookup.getY().setType(type.clone(element));
  OpBuilder builder(lookup->getContext());
  builder.setInsertionPointAfter(lookup);
  auto cast = CastOp::create(builder, lookup.getLoc(), type, lookup.getY());
  copyLayer(lookup, cast);
  lookup.getY().replaceAllUsesExcept(cast, cast);
  return true;
}

/// Changes the type that a read of a frozen parameter returns.
static void narrow(ReadOp read, RankedTensorType type) {
  RankedTensorType wide = tensorTypeOf(read.getY());
  Value value = read.getY();
  OpBuilder builder(read->getContext());
  builder.setInsertionPointAfter(read);
  auto widened = CastOp::create(builder, read.getLoc(), wide, value);
  value.setType(type);
  for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
    Operation *user = use.getOwner();
    if (user == widened)
      continue;
    if (auto cast = dyn_cast<CastOp>(user)) {
      if (cast.getType() == type) {
        cast.replaceAllUsesWith(value);
        cast.erase();
      }
      continue;
    }
    if (auto lookup = dyn_cast<EmbeddingOp>(user);
        lookup && narrowLookup(lookup))
      continue;
    use.set(widened);
  }
  if (widened.use_empty())
    widened.erase();
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
    llvm::StringMap<RankedTensorType> narrowed;
    for (StateOp state : module.getOps<StateOp>()) {
      RankedTensorType type = state.getTensorType();
      if (state.getRole() != Role::Parameter || !state.getFrozen() ||
          elementBytes(element) >= elementBytes(type))
        continue;
      type = type.clone(element);
      state.setType(type);
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
