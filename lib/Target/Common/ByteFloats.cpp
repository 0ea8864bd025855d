//===- ByteFloats.cpp - 8-bit floating-point types in kernels -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Let m be the number of mantissa bits and b the bias of the 8-bit type, and u
// the bits of an f32 without its sign. If the result is a normal number, its
// code, rounded to nearest even, is
//
//   ((u + 2^(22-m) - 1 + bit 23-m of u) >> (23-m)) - ((127-b) << m)
//
// If the result is subnormal, 2^(24-b-m) is added to the f32. The last bit of
// this sum has the weight of one subnormal step, so the addition rounds the
// number and the low bits of the sum are the code. A code above that of the
// largest finite number is replaced by the overflow code of the format.
//
// A normal number is widened by shifting its bits and adding the difference of
// the biases to the exponent. The value of a subnormal number is its mantissa
// times a power of two.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/ByteFloats.h"

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

namespace {

// Constants of the f32 format.
constexpr int kMantissa = 23, kBias = 127;
constexpr int64_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000,
                  kNaN = 0x7fc00000;

/// Emits the conversion of one value, a scalar or a vector, before `op`.
class Converter {
public:
  Converter(Operation *op, Type stored)
      : b(op->getLoc(), op), format(infoOf(elementTypeOf(stored)).format),
        mantissa(static_cast<int>(format.mantissaBits)), stored(stored),
        codes(withElement(b.getI8Type())), words(withElement(b.getI32Type())),
        singles(withElement(b.getF32Type())) {}

  /// Converts an 8-bit value to f32. The conversion is exact.
  Value widen(Value x);
  /// Rounds an f32 value to the 8-bit type, to nearest even.
  Value round(Value x);

private:
  Type withElement(Type element) {
    auto vector = dyn_cast<VectorType>(stored);
    return vector ? Type(vector.clone(element)) : element;
  }
  Value constant(Type type, TypedAttr element) {
    if (auto vector = dyn_cast<VectorType>(type))
      element = SplatElementsAttr::get(vector, Attribute(element));
    return arith::ConstantOp::create(b, element);
  }
  Value word(int64_t value) {
    return constant(words, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  Value single(double value) {
    return constant(singles, b.getF32FloatAttr(static_cast<float>(value)));
  }
  Value compare(arith::CmpIPredicate predicate, Value x, int64_t y) {
    return arith::CmpIOp::create(b, predicate, x, word(y));
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value bitAnd(Value x, int64_t y) {
    return arith::AndIOp::create(b, x, word(y));
  }
  Value bitOr(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value shiftLeft(Value x, int64_t bits) {
    return arith::ShLIOp::create(b, x, word(bits));
  }
  Value shiftRight(Value x, int64_t bits) {
    return arith::ShRUIOp::create(b, x, word(bits));
  }
  Value bitcast(Type type, Value x) {
    return arith::BitcastOp::create(b, type, x);
  }

  ImplicitLocOpBuilder b;
  support::FloatFormat format;
  int mantissa;
  Type stored, codes, words, singles;
};

} // namespace

Value Converter::widen(Value x) {
  using Predicate = arith::CmpIPredicate;
  Value byte = arith::ExtUIOp::create(b, words, bitcast(codes, x));
  Value code = bitAnd(byte, 0x7f), sign = shiftLeft(bitAnd(byte, 0x80), 24);
  Value normal = add(shiftLeft(code, kMantissa - mantissa),
                     word(int64_t(kBias - format.bias()) << kMantissa));
  Value step = single(std::ldexp(1.0, 1 - format.bias() - mantissa));
  Value subnormal =
      arith::MulFOp::create(b, arith::UIToFPOp::create(b, singles, code), step);
  Value bits = select(compare(Predicate::ult, code, int64_t(1) << mantissa),
                      bitcast(words, subnormal), normal);
  Value other = word(kNaN);
  if (format.hasInfinity)
    other = select(
        compare(Predicate::eq, code, static_cast<int64_t>(format.infinity())),
        word(kInfinity), other);
  bits = select(
      compare(Predicate::ule, code, static_cast<int64_t>(format.largest())),
      bits, other);
  return bitcast(singles, bitOr(bits, sign));
}

Value Converter::round(Value x) {
  using Predicate = arith::CmpIPredicate;
  Value bits = bitcast(words, x), size = bitAnd(bits, kMagnitude);
  Value sign = bitAnd(shiftRight(bits, 24), 0x80);
  int shift = kMantissa - mantissa;
  Value isOdd = bitAnd(shiftRight(size, shift), 1);
  Value rounded = add(add(size, word((int64_t(1) << (shift - 1)) - 1)), isOdd);
  Value normal = sub(shiftRight(rounded, shift),
                     word(int64_t(kBias - format.bias()) << mantissa));
  Value step =
      single(std::ldexp(1.0, kMantissa + 1 - format.bias() - mantissa));
  Value sum = arith::AddFOp::create(b, bitcast(singles, size), step);
  Value subnormal = sub(bitcast(words, sum), bitcast(words, step));
  int64_t smallestNormal = int64_t(kBias + 1 - format.bias()) << kMantissa;
  Value code =
      select(compare(Predicate::ult, size, smallestNormal), subnormal, normal);
  code = select(
      compare(Predicate::ugt, code, static_cast<int64_t>(format.largest())),
      word(static_cast<int64_t>(format.overflow())), code);
  code = select(compare(Predicate::ugt, size, kInfinity),
                word(static_cast<int64_t>(format.quietNaN())), code);
  Value byte = arith::TruncIOp::create(b, codes, bitOr(code, sign));
  return bitcast(stored, byte);
}

bool kiln::isByteFloat(Type type) {
  std::optional<ElementType> found = findElementType(type);
  return found && isFloat(*found) && bitsOf(*found) == 8;
}

Type kiln::integerOfBits(Type type) {
  auto bits = IntegerType::get(
      type.getContext(), getElementTypeOrSelf(type).getIntOrFloatBitWidth());
  auto vector = dyn_cast<VectorType>(type);
  return vector ? Type(vector.clone(bits)) : bits;
}

void kiln::replaceFloatsByIntegers(Operation *op,
                                   function_ref<bool(FloatType)> isReplaced) {
  auto bitsOf = [&](Type type) -> Type {
    auto real = dyn_cast<FloatType>(type);
    return real && isReplaced(real) ? integerOfBits(real) : Type();
  };
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](FloatType type) -> std::optional<Type> {
    if (Type bits = bitsOf(type))
      return bits;
    return std::nullopt;
  });
  replacer.addReplacement([&](FloatAttr value) -> std::optional<Attribute> {
    if (Type bits = bitsOf(value.getType()))
      return IntegerAttr::get(bits, value.getValue().bitcastToAPInt());
    return std::nullopt;
  });
  replacer.addReplacement(
      [&](DenseElementsAttr values) -> std::optional<Attribute> {
        if (Type bits = bitsOf(values.getElementType()))
          return values.bitcast(bits);
        return std::nullopt;
      });
  replacer.recursivelyReplaceElementsIn(op, /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

void kiln::expandByteFloats(Operation *op) {
  bool hasAny = false;
  op->walk([&](Operation *inner) {
    hasAny |= llvm::any_of(inner->getResultTypes(), isByteFloat);
    if (auto widen = dyn_cast<arith::ExtFOp>(inner)) {
      if (!isByteFloat(widen.getIn().getType()))
        return;
      Value wide =
          Converter(inner, widen.getIn().getType()).widen(widen.getIn());
      if (wide.getType() != widen.getType()) {
        OpBuilder b(inner);
        wide = arith::ExtFOp::create(b, inner->getLoc(), widen.getType(), wide);
      }
      widen.replaceAllUsesWith(wide);
      widen.erase();
    } else if (auto round = dyn_cast<arith::TruncFOp>(inner)) {
      if (!isByteFloat(round.getType()))
        return;
      assert(getElementTypeOrSelf(round.getIn()).isF32() &&
             "f64 is rounded to odd first");
      round.replaceAllUsesWith(
          Converter(inner, round.getType()).round(round.getIn()));
      round.erase();
    }
  });
  if (hasAny)
    replaceFloatsByIntegers(op,
                            [](FloatType type) { return isByteFloat(type); });
}
