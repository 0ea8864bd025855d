//===- Layer.h - Layer attribute of ops -------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attribute `kiln.layer` of an op of the forward pass is the layer of the
// model that the op belongs to. A pass that inserts new ops to replace an
// original op, or to process the results of an original op, must copy the layer
// of the original op to the new ops.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_LAYER_H
#define KILN_DIALECT_KILN_IR_LAYER_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Attribute of an op in a program: the layer that it belongs to (LayerAttr).
inline constexpr llvm::StringLiteral kLayerAttr = "kiln.layer";

/// Returns the layer of an op, or null if it belongs to none.
LayerAttr getLayer(mlir::Operation *op);
/// Returns the layer of the op that computes a value, or null.
LayerAttr getDefiningLayer(mlir::Value value);

/// Sets the layer of `op`, or removes it if `layer` is null.
void setLayer(mlir::Operation *op, LayerAttr layer);

/// Sets the layer of `to` to the layer of `from`.
void copyLayer(mlir::Operation *from, mlir::Operation *to);

/// Sets the layer of every op that a builder with this listener creates.
class LayerListener : public mlir::OpBuilder::Listener {
public:
  explicit LayerListener(LayerAttr layer = {}) : layer(layer) {}

  /// Changes the layer for ops that are created after this call.
  void enter(LayerAttr next) { layer = next; }

  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint previous) override;

private:
  LayerAttr layer;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_LAYER_H
