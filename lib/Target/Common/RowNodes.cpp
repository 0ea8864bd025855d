//===- RowNodes.cpp - Arithmetic of row program nodes ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each node kind maps to one operation or elementary function. The value of a
// node is rounded to the type of the node, so its bits do not depend on how
// other nodes use it.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/RowNodes.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Support/Dynamic8.h"

#include "kiln/Target/Common/VectorMath.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/bit.h"

#include <array>
#include <limits>

using namespace mlir;

namespace kiln {

using row::Kind;
using row::Node;

namespace {

Value emitCast(ArithBuilder &k, Value x, row::Type to) {
  Type from = getElementTypeOrSelf(x);
  Type type = ArithBuilder::like(x.getType(), elementTypeOf(k, to));
  if (x.getType() == type)
    return x;
  bool widens = getElementTypeOrSelf(type).getIntOrFloatBitWidth() >
                from.getIntOrFloatBitWidth();
  if (isa<FloatType>(from)) {
    if (!isFloat(to))
      return arith::FPToSIOp::create(k.b, type, x);
    if (widens)
      return arith::ExtFOp::create(k.b, type, x);
    return arith::TruncFOp::create(k.b, type, x);
  }
  bool isBool = from.isInteger(1);
  if (isFloat(to)) {
    if (isBool)
      return arith::UIToFPOp::create(k.b, type, x);
    return arith::SIToFPOp::create(k.b, type, x);
  }
  if (!widens)
    return arith::TruncIOp::create(k.b, type, x);
  if (isBool)
    return arith::ExtUIOp::create(k.b, type, x);
  return arith::ExtSIOp::create(k.b, type, x);
}

/// Rounds an f64 value to f32 with round-to-odd: returns `x` if it is an f32
/// number, otherwise the one of the two adjacent f32 numbers whose last bit is
/// set. Rounding the result to a narrower type is then the same as rounding `x`
/// once. Any other intermediate rounding could move `x` to or across a halfway
/// point.
Value roundToOdd(ArithBuilder &k, Value x) {
  Value nearest = emitCast(k, x, row::Type::F32);
  Value size = k.abs(x), rounded = k.abs(emitCast(k, nearest, row::Type::F64));
  Value bits =
      k.bitcast(nearest, ArithBuilder::like(nearest.getType(), k.i32()));
  auto number = [&](int64_t value) {
    return k.constantI(value, bits.getType());
  };
  // Both comparisons are false for a NaN, so `step` is 0 and the NaN is
  // returned unchanged.
  Value step = k.select(k.less(rounded, size), number(1), number(0));
  step = k.select(k.less(size, rounded), number(-1), step);
  Value isEven = k.equal(k.bitAnd(bits, number(1)), number(0));
  return k.bitcast(k.add(bits, k.select(isEven, step, number(0))),
                   nearest.getType());
}

/// Emits base^exponent by repeated squaring; exponent >= 0.
Value emitPower(ArithBuilder &k, Value base, Value exponent) {
  Value one = k.constantF(1, base.getType());
  Value zeros = LLVM::CountLeadingZerosOp::create(k.b, k.i64(), exponent,
                                                  /*is_zero_poison=*/false);
  Value bits = k.sub(k.i64Constant(64), zeros);
  SmallVector<Value> results =
      k.loop(k.i64Constant(0), bits, 1, {one, base, exponent},
             [&](Value, ValueRange carried) -> SmallVector<Value> {
               Value power = carried[0], square = carried[1], rest = carried[2];
               Value isOdd =
                   k.equal(k.bitAnd(rest, k.i64Constant(1)), k.i64Constant(1));
               return {k.select(isOdd, k.mul(power, square), power),
                       k.mul(square, square), k.shiftRight(rest, 1)};
             });
  return results[0];
}

StringRef nameOf(support::DynamicMap map) {
  return map == support::DynamicMap::Signed ? "signed" : "unsigned";
}

/// Emits the f32 value that `map` assigns to the i8 code `code`.
Value emitDecode(ArithBuilder &k, support::DynamicMap map, Value code) {
  std::array<int32_t, 256> bits =
      llvm::bit_cast<std::array<int32_t, 256>>(support::dynamicValues(map));
  return k.bitcast(k.lookUp(("kiln_values_" + nameOf(map)).str(), bits, code),
                   ArithBuilder::like(code.getType(), k.f32()));
}

/// Emits the i8 code of the f32 `x` as support::DynamicSearch describes: one
/// look-up and integer arithmetic.
Value emitEncode(ArithBuilder &k, support::DynamicMap map, Value x) {
  const support::DynamicSearch &search = support::dynamicSearch(map);
  Type integers = ArithBuilder::like(x.getType(), k.i32());
  auto number = [&](int64_t value) { return k.constantI(value, integers); };
  Value bits = k.bitcast(x, integers), isNegative;
  bool isSigned = map == support::DynamicMap::Signed;
  if (isSigned) {
    Value sign = k.shiftRight(bits, 31);
    isNegative = k.less(number(0), sign);
    bits = k.add(k.bitAnd(bits, number(INT32_MAX)), sign);
  } else {
    bits = k.max(bits, number(0));
  }
  Value bucket = k.sub(k.shiftRight(bits, search.shift), number(search.first));
  bucket = k.min(k.max(bucket, number(0)), number(search.entries.size() - 1));
  // On a CPU, lookUp() stores a vector of indices in memory and loads each of
  // them, so narrow the indices to 16 bits.
  Value entry = k.lookUp(
      ("kiln_search_" + nameOf(map)).str(), search.entries,
      arith::TruncIOp::create(
          k.b, ArithBuilder::like(integers, k.b.getI16Type()), bucket));
  Value below = k.bitAnd(entry, number(255));
  Value isInside = k.less(k.bitAnd(bits, number((1 << search.shift) - 1)),
                          k.shiftRight(entry, 8));
  Value code = k.select(isInside, below, k.add(below, number(1)));
  if (isSigned) {
    Value zero = number(support::dynamicZero(map));
    code =
        k.select(isNegative, k.sub(zero, k.min(code, zero)), k.add(zero, code));
  }
  return arith::TruncIOp::create(
      k.b, ArithBuilder::like(integers, k.b.getI8Type()), code);
}

} // namespace

Type elementTypeOf(ArithBuilder &k, row::Type type) {
  return irTypeOf(type, k.b.getContext());
}

Value emitNode(ArithBuilder &k, const Node &node, ArrayRef<Value> inputs) {
  switch (node.kind) {
  case Kind::Constant: {
    Type type = elementTypeOf(k, node.type);
    return isFloat(node.type)
               ? k.constantF(node.value, type)
               : k.constantI(static_cast<int64_t>(node.value), type);
  }
  case Kind::Cast:
    return emitCast(k, inputs[0], node.type);
  case Kind::Round: {
    Value x = inputs[0];
    if (getElementTypeOrSelf(x).isF64())
      x = roundToOdd(k, x);
    return k.widen(k.roundTo(x, elementTypeOf(k, node.stored)));
  }
  case Kind::Neg:
    return k.neg(inputs[0]);
  case Kind::Exp:
    return emitExp(k, inputs[0]);
  case Kind::Log:
    return emitLog(k, inputs[0]);
  case Kind::Sqrt:
    return k.sqrt(inputs[0]);
  case Kind::Tanh:
    return emitTanh(k, inputs[0]);
  case Kind::Sigmoid:
    return emitSigmoid(k, inputs[0]);
  case Kind::Erf:
    return emitErf(k, inputs[0]);
  case Kind::Abs:
    return k.abs(inputs[0]);
  case Kind::DecodeSigned:
    return emitDecode(k, support::DynamicMap::Signed, inputs[0]);
  case Kind::DecodeUnsigned:
    return emitDecode(k, support::DynamicMap::Unsigned, inputs[0]);
  case Kind::EncodeSigned:
    return emitEncode(k, support::DynamicMap::Signed, inputs[0]);
  case Kind::EncodeUnsigned:
    return emitEncode(k, support::DynamicMap::Unsigned, inputs[0]);
  case Kind::Add:
    return k.add(inputs[0], inputs[1]);
  case Kind::Sub:
    return k.sub(inputs[0], inputs[1]);
  case Kind::Mul:
    return k.mul(inputs[0], inputs[1]);
  case Kind::Div:
    return k.div(inputs[0], inputs[1]);
  case Kind::Max:
    return k.max(inputs[0], inputs[1]);
  case Kind::Min:
    return k.min(inputs[0], inputs[1]);
  case Kind::Fma:
    return k.fma(inputs[0], inputs[1], inputs[2]);
  case Kind::Less:
    return k.less(inputs[0], inputs[1]);
  case Kind::LessUnsigned:
    return k.lessUnsigned(inputs[0], inputs[1]);
  case Kind::Equal:
    return k.equal(inputs[0], inputs[1]);
  case Kind::Select:
    return k.select(inputs[0], inputs[1], inputs[2]);
  case Kind::PowInt:
    return emitPower(k, inputs[0], inputs[1]);
  case Kind::Load:
  case Kind::ColumnIndex:
  case Kind::RowIndex:
  case Kind::ReduceSum:
  case Kind::ReduceMax:
  case Kind::Random:
    break;
  }
  llvm_unreachable("not arithmetic");
}

Value emitNeutral(ArithBuilder &k, const Node &reduction) {
  Type type = k.vectorOf(elementTypeOf(k, reduction.type));
  bool isMax = reduction.kind == Kind::ReduceMax;
  return k.constantF(isMax ? -std::numeric_limits<double>::infinity() : 0,
                     type);
}

Value emitCombine(ArithBuilder &k, const Node &reduction, Value partial,
                  Value next) {
  return reduction.kind == Kind::ReduceMax ? k.max(partial, next)
                                           : k.add(partial, next);
}

} // namespace kiln
