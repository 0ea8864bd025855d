//===- ArithBuilder.cpp - Builder of kernel arithmetic --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each method creates the corresponding operation of arith, vector, scf or the
// LLVM dialect. Loops carry an annotation that keeps LLVM from unrolling them.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/ArithBuilder.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"

#include "mlir/IR/TypeUtilities.h"

#include <algorithm>

using namespace mlir;

namespace kiln {

namespace {

bool isFloat(Value x) { return isa<FloatType>(getElementTypeOrSelf(x)); }

LLVM::LoopAnnotationAttr noUnrolling(MLIRContext *context) {
  auto unroll = LLVM::LoopUnrollAttr::get(
      context, /*disable=*/BoolAttr::get(context, true), {}, {}, {}, {}, {},
      {});
  return LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {},
                                       {}, {}, {}, {}, {}, {}, {}, {});
}

} // namespace

//===----------------------------------------------------------------------===//
// Types and constants
//===----------------------------------------------------------------------===//

VectorType ArithBuilder::vectorOf(Type element) {
  return VectorType::get({laneCount}, element);
}

Type ArithBuilder::like(Type shape, Type element) {
  if (auto vector = dyn_cast<VectorType>(shape))
    return vector.clone(element);
  return element;
}

Value ArithBuilder::constantF(double value, Type type) {
  TypedAttr attr = b.getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, attr);
}

Value ArithBuilder::constantI(int64_t value, Type type) {
  TypedAttr attr = b.getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, attr);
}

Value ArithBuilder::lanes(Type integer) {
  SmallVector<Attribute> values;
  for (int64_t i = 0; i < laneCount; ++i)
    values.push_back(b.getIntegerAttr(integer, i));
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(vectorOf(integer), values));
}

Value ArithBuilder::firstLanes(int64_t count) {
  SmallVector<bool> set(laneCount, false);
  std::fill_n(set.begin(), std::clamp<int64_t>(count, 0, laneCount), true);
  return arith::ConstantOp::create(b,
                                   DenseElementsAttr::get(vectorOf(i1()), set));
}

Value ArithBuilder::lanesBetween(Value first, Value low, Value high) {
  // Compare in i64, because `low` and `high` may be far outside of the range
  // [first, first + laneCount).
  Value position = add(broadcast(first), lanes(i64()));
  Value inside = less(position, broadcast(high));
  Value outside = less(position, broadcast(low));
  return select(outside, constantI(0, inside.getType()), inside);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value ArithBuilder::add(Value x, Value y) {
  if (isFloat(x))
    return arith::AddFOp::create(b, x, y);
  return arith::AddIOp::create(b, x, y);
}

Value ArithBuilder::sub(Value x, Value y) {
  if (isFloat(x))
    return arith::SubFOp::create(b, x, y);
  return arith::SubIOp::create(b, x, y);
}

Value ArithBuilder::mul(Value x, Value y) {
  if (isFloat(x))
    return arith::MulFOp::create(b, x, y);
  return arith::MulIOp::create(b, x, y);
}

Value ArithBuilder::div(Value x, Value y) {
  return arith::DivFOp::create(b, x, y);
}

Value ArithBuilder::divUnsigned(Value x, Value y) {
  return arith::DivUIOp::create(b, x, y);
}

Value ArithBuilder::remUnsigned(Value x, Value y) {
  return arith::RemUIOp::create(b, x, y);
}

Value ArithBuilder::neg(Value x) { return arith::NegFOp::create(b, x); }

Value ArithBuilder::abs(Value x) { return LLVM::FAbsOp::create(b, x); }

Value ArithBuilder::sqrt(Value x) { return LLVM::SqrtOp::create(b, x); }

Value ArithBuilder::copySign(Value magnitude, Value sign) {
  return LLVM::CopySignOp::create(b, magnitude, sign);
}

Value ArithBuilder::fma(Value x, Value y, Value z) {
  return LLVM::FMAOp::create(b, x, y, z);
}

Value ArithBuilder::polynomial(Value x, ArrayRef<double> coefficients) {
  Value result = constantF(coefficients.front(), x.getType());
  for (double c : coefficients.drop_front())
    result = fma(result, x, constantF(c, x.getType()));
  return result;
}

Value ArithBuilder::bitAnd(Value x, Value y) {
  return arith::AndIOp::create(b, x, y);
}

Value ArithBuilder::bitOr(Value x, Value y) {
  return arith::OrIOp::create(b, x, y);
}

Value ArithBuilder::bitXor(Value x, Value y) {
  return arith::XOrIOp::create(b, x, y);
}

Value ArithBuilder::shiftLeft(Value x, int64_t bits) {
  return arith::ShLIOp::create(b, x, constantI(bits, x.getType()));
}

Value ArithBuilder::shiftRight(Value x, int64_t bits) {
  return arith::ShRUIOp::create(b, x, constantI(bits, x.getType()));
}

Value ArithBuilder::bitcast(Value x, Type type) {
  return LLVM::BitcastOp::create(b, type, x);
}

Value ArithBuilder::widen(Value stored) {
  Type element = getElementTypeOrSelf(stored);
  if (!isNarrowFloat(element))
    return stored;
  return arith::ExtFOp::create(
      b, like(stored.getType(), fullPrecision(element)), stored);
}

Value ArithBuilder::roundTo(Value x, Type stored) {
  if (!isNarrowFloat(stored))
    return x;
  // A value that was widened from `stored` needs no rounding.
  if (auto widened = x.getDefiningOp<arith::ExtFOp>())
    if (getElementTypeOrSelf(widened.getIn()) == stored)
      return widened.getIn();
  return arith::TruncFOp::create(b, like(x.getType(), stored), x);
}

Value ArithBuilder::less(Value x, Value y) {
  if (isFloat(x))
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
}

Value ArithBuilder::lessUnsigned(Value x, Value y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, y);
}

Value ArithBuilder::equal(Value x, Value y) {
  if (isFloat(x))
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, y);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, y);
}

Value ArithBuilder::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, condition, x, y);
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

Value ArithBuilder::broadcast(Value scalar) {
  return vector::BroadcastOp::create(b, vectorOf(scalar.getType()), scalar);
}

Value ArithBuilder::lane(Value vector, int64_t i) {
  return vector::ExtractOp::create(b, vector, i);
}

Value ArithBuilder::insertLane(Value scalar, Value vector, int64_t i) {
  return vector::InsertOp::create(b, scalar, vector, i);
}

Value ArithBuilder::reduceLanes(Value vector,
                                function_ref<Value(Value, Value)> combine) {
  for (int64_t half = laneCount / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    vector = combine(vector::ShuffleOp::create(b, vector, vector, low),
                     vector::ShuffleOp::create(b, vector, vector, high));
  }
  return lane(vector, 0);
}

Value ArithBuilder::sumLanes(Value vector) {
  return reduceLanes(vector, [&](Value x, Value y) { return add(x, y); });
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

SmallVector<Value> ArithBuilder::loop(Value low, Value high, int64_t step,
                                      ValueRange initial, LoopBody body) {
  auto loop = scf::ForOp::create(b, low, high, i64Constant(step), initial);
  // convert-scf-to-cf recognizes this attribute name.
  loop->setAttr("loop_annotation", noUnrolling(b.getContext()));
  OpBuilder::InsertionGuard guard(b);
  Block *block = loop.getBody();
  // A loop without results already has its terminator.
  if (initial.empty())
    b.setInsertionPoint(block->getTerminator());
  else
    b.setInsertionPointToEnd(block);
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!initial.empty())
    scf::YieldOp::create(b, next);
  return SmallVector<Value>(loop.getResults());
}

void ArithBuilder::loop(Value low, Value high, int64_t step,
                        function_ref<void(Value)> body) {
  loop(low, high, step, ValueRange{}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

void ArithBuilder::ifThen(Value condition, function_ref<void()> body,
                          function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/!!otherwise);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  body();
  if (!otherwise)
    return;
  b.setInsertionPoint(branch.elseBlock()->getTerminator());
  otherwise();
}

LLVM::GlobalOp createTable(ImplicitLocOpBuilder &b, StringRef name,
                           ArrayRef<int32_t> elements, unsigned addressSpace) {
  auto size = static_cast<int64_t>(elements.size());
  return LLVM::GlobalOp::create(
      b, LLVM::LLVMArrayType::get(b.getI32Type(), elements.size()),
      /*isConstant=*/true, LLVM::Linkage::Internal, name,
      DenseElementsAttr::get(RankedTensorType::get({size}, b.getI32Type()),
                             elements),
      /*alignment=*/64, addressSpace);
}

} // namespace kiln
