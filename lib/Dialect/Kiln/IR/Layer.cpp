//===- Layer.cpp - Layer attribute of ops ---------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Layer.h"

using namespace mlir;
using namespace kiln;

LogicalResult LayerAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringRef name, int64_t number) {
  if (name.empty())
    return emitError() << "layer has an empty name";
  if (number < 0)
    return emitError() << "layer '" << name << "' has number " << number
                       << ", expected a number of at least 0";
  return success();
}

LayerAttr kiln::getLayer(Operation *op) {
  return op->getAttrOfType<LayerAttr>(kLayerAttr);
}

LayerAttr kiln::getDefiningLayer(Value value) {
  Operation *op = value.getDefiningOp();
  return op ? getLayer(op) : LayerAttr();
}

void kiln::setLayer(Operation *op, LayerAttr layer) {
  if (layer)
    op->setAttr(kLayerAttr, layer);
  else
    op->removeAttr(kLayerAttr);
}

void kiln::copyLayer(Operation *from, Operation *to) {
  setLayer(to, getLayer(from));
}

void LayerListener::notifyOperationInserted(Operation *op,
                                            OpBuilder::InsertPoint previous) {
  // If `previous` is set, the op was moved and not created. A moved op keeps
  // its layer.
  if (layer && !previous.isSet())
    setLayer(op, layer);
}
