//===- NarrowReads.cpp - Reads of narrow parameters -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowReads.h"

#include "kiln/Dialect/Kiln/IR/Layer.h"

using namespace mlir;
using namespace kiln;

/// Makes a lookup read the narrow table and return narrow rows, and converts
/// these rows. Returns false if no lookup can read the type of the table.
static bool narrowLookup(EmbeddingOp lookup, Value table) {
  Type element = tensorTypeOf(table).getElementType();
  if (!isComputedReal(element))
    return false;
  lookup.getTableMutable().assign(table);
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

void kiln::replaceByNarrow(Value wide, Value narrow,
                           llvm::function_ref<bool(OpOperand &)> replaces) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : wide.getUses())
    if (!replaces || replaces(use))
      uses.push_back(&use);
  OpBuilder builder(narrow.getContext());
  builder.setInsertionPointAfterValue(narrow);
  Value widened =
      CastOp::create(builder, wide.getLoc(), wide.getType(), narrow);
  for (OpOperand *use : uses) {
    Operation *user = use->getOwner();
    auto cast = dyn_cast<CastOp>(user);
    if (cast && cast.getType() == narrow.getType()) {
      cast.replaceAllUsesWith(narrow);
      cast.erase();
      continue;
    }
    auto lookup = dyn_cast<EmbeddingOp>(user);
    if (lookup && narrowLookup(lookup, narrow))
      continue;
    use->set(cast ? narrow : widened);
  }
  if (widened.use_empty())
    widened.getDefiningOp()->erase();
}
