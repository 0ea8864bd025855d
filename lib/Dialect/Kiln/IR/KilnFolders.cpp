//===- KilnFolders.cpp - Folders and canonicalizations ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only rewrites that keep every bit.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace mlir;
using namespace kiln;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  // A constant has equal elements: one number is rounded, once.
  auto constant = dyn_cast_if_present<SplatElementsAttr>(adaptor.getX());
  if (!constant)
    return {};
  APFloat number = constant.getSplatValue<APFloat>();
  bool losesInfo = false;
  number.convert(
      cast<FloatType>(getType().getElementType()).getFloatSemantics(),
      APFloat::rmNearestTiesToEven, &losesInfo);
  return DenseElementsAttr::get(getType(), number);
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto source = getX().getDefiningOp<ReshapeOp>()) {
    getXMutable().assign(source.getX());
    return getResult();
  }
  return {};
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  return getX().getType() == getType() ? OpFoldResult(getX()) : OpFoldResult();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? OpFoldResult(getInputs().front())
                                 : OpFoldResult();
}
