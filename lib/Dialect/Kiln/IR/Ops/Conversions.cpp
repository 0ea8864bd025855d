//===- Conversions.cpp - Constants and casts --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"
#include "SequenceRules.h"
#include "kiln/Dialect/Kiln/IR/GradientType.h"
#include "kiln/Support/ElementConversion.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

using NodeId = row::NodeId;

static row::Type rowTypeOf(Value value) {
  return computeType(elementTypeOf(value.getType()));
}

//===----------------------------------------------------------------------===//
// constant
//===----------------------------------------------------------------------===//

void ConstantOp::build(OpBuilder &builder, OperationState &state,
                       RankedTensorType type, double splat) {
  build(builder, state, type,
        DenseElementsAttr::get(
            type, builder.getFloatAttr(type.getElementType(), splat)));
}

LogicalResult ConstantOp::verify() {
  if (!isa<SplatElementsAttr>(getValue())) // Constraint C1.
    return emitOpError("value must be a splat");
  if (getValue().getType() != getType())
    return emitOpError("value has type ")
           << getValue().getType() << ", expected " << getType();
  return success();
}

double ConstantOp::getSplat() {
  return getValue().getSplatValue<APFloat>().convertToDouble();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }
Rounding ConstantOp::getRounding() { return Rounding::Nothing; }

/// All elements are equal, so every dimension whose extent is a multiple of
/// `batch`, the number of sequences, consists of `batch` identical slices, one
/// per sequence.
void ConstantOp::inferSequences(Facts, int64_t batch, MutableFacts results) {
  results[0] =
      SequenceFact::shared(0, dividedDims(tensorTypeOf(getY()), batch));
}

RowSpace ConstantOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ConstantOp::buildRows(RowBuilder &rows) {
  rows.set(getY(), rows.constant(getSplat(), rowTypeOf(getY())));
  return success();
}

LogicalResult ConstantOp::evaluate(Operands operands, Results results) {
  results[0].reals.assign(results[0].size(), getSplat());
  return success();
}

//===----------------------------------------------------------------------===//
// cast
//===----------------------------------------------------------------------===//

RankedTensorType kiln::gradientType(RankedTensorType type) {
  return infoOf(elementTypeOf(type)).storageOnly ? fullPrecision(type) : type;
}

bool CastOp::isCheapToRebuild() { return true; }
bool CastOp::isLinear() { return true; }
Rounding CastOp::getRounding() { return roundingOfConversion(getX(), getY()); }

KILN_UNARY_GRADIENT(CastOp, builder.createOrFold<CastOp>(
                                getLoc(), gradientType(tensorTypeOf(x)), dy))

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  // Fold only splat constants, for which it suffices to round one number.
  auto constant = dyn_cast_if_present<SplatElementsAttr>(adaptor.getX());
  if (!constant)
    return {};
  double number = constant.getSplatValue<APFloat>().convertToDouble();
  return DenseElementsAttr::get(
      getType(),
      FloatAttr::get(getType().getElementType(),
                     support::roundTo(elementTypeOf(getType()), number)));
}

RowSpace CastOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult CastOp::buildRows(RowBuilder &rows) {
  // A conversion from f64 to a narrow type by way of f32 would round twice. The
  // node keeps its f64 value here, and is rounded once when the result is set.
  bool isRoundedOnce =
      getX().getType().getElementType().isF64() && isNarrowFloat(getType());
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return isRoundedOnce ? x : rows.cast(x, rowTypeOf(getY()));
  });
}

LogicalResult CastOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return x; });
}
