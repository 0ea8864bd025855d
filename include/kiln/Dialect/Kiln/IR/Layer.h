//===- Layer.h - The layer that an op belongs to ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops of the forward pass carry the layer of the model that they belong to. A
// pass that replaces an op, or inserts ops that work on its results, must give
// the new ops the layer of the old one.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_LAYER_H
#define KILN_DIALECT_KILN_IR_LAYER_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// On an op of a program: the layer that it belongs to (LayerAttr).
inline constexpr llvm::StringLiteral kLayerAttr = "kiln.layer";

/// Returns the layer of an op, or null if it belongs to none.
LayerAttr getLayer(mlir::Operation *op);
/// Returns the layer of the op that computes a value, or null.
LayerAttr getDefiningLayer(mlir::Value value);

/// Gives `op` a layer; null removes the one that it has.
void setLayer(mlir::Operation *op, LayerAttr layer);

/// Gives `to` the layer of `from`.
void copyLayer(mlir::Operation *from, mlir::Operation *to);

/// Gives a layer to every op that a builder with this listener creates.
class LayerListener : public mlir::OpBuilder::Listener {
public:
  explicit LayerListener(LayerAttr layer = {}) : layer(layer) {}

  /// Changes the layer of the ops that are created from now on.
  void enter(LayerAttr next) { layer = next; }

  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint previous) override;

private:
  LayerAttr layer;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_LAYER_H
