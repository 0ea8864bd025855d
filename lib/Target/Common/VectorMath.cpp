//===- VectorMath.cpp - Elementary functions of kernels -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The exponential follows Cephes: it subtracts a multiple of ln 2 from the
// argument, with ln 2 represented as the sum of two constants, and evaluates a
// polynomial of degree 7. The other polynomials are minimax fits weighted by
// the relative error of the function. Some functions use one formula for small
// arguments and another formula for large arguments. The lanes of a vector may
// need different formulas, so the code has no branches: it evaluates both
// formulas and selects one of the two results in each lane.
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Common/VectorMath.h"

#include "kiln/Support/Rng.h"

#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;

namespace kiln {

namespace {

bool isDouble(Value x) { return getElementTypeOrSelf(x).isF64(); }

} // namespace

Value emitExp(ArithBuilder &k, Value x) {
  if (isDouble(x))
    return k.callLibrary("exp", x);
  Type type = x.getType(), bits = ArithBuilder::like(type, k.i32());
  auto constant = [&](double value) { return k.constantF(value, type); };

  // Outside these bounds the result is 0 or infinity.
  x = k.min(k.max(x, constant(-87.33654)), constant(89.0));
  // The low mantissa bits of t hold n = round(x / ln 2).
  Value rounder = constant(12582912.0);
  Value t = k.fma(x, constant(1.44269504), rounder);
  Value n = k.sub(t, rounder);
  Value r = k.fma(n, constant(-0.693145751953125), x);
  r = k.fma(n, constant(-1.42860682e-6), r);
  Value p = k.polynomial(r, {1.98756915e-4, 1.39819995e-3, 8.33345190e-3,
                             4.16657959e-2, 1.66666655e-1, 5.00000012e-1});
  Value y = k.add(k.fma(p, k.mul(r, r), r), constant(1.0));
  // Compute y * 2^n as y * 2^(n-1) * 2, because n may be 128 and 2^128 is not
  // an f32. The last addition overflows to infinity if the result exceeds the
  // largest f32. For n = -126, the bits of the factor 2^(n-1) are those of 0,
  // so the result is 0. The multiplication propagates NaN.
  Value half = k.add(k.shiftLeft(k.bitcast(t, bits), 23),
                     k.constantI(int64_t{126} << 23, bits));
  Value scaled = k.mul(y, k.bitcast(half, type));
  return k.add(scaled, scaled);
}

Value emitLog(ArithBuilder &k, Value x) {
  if (isDouble(x))
    return k.callLibrary("log", x);
  Type type = x.getType(), bits = ArithBuilder::like(type, k.i32());
  auto constant = [&](double value) { return k.constantF(value, type); };

  // Scale subnormals into the normal range.
  Value tiny = k.less(x, constant(0x1p-126));
  Value scaled = k.select(tiny, k.mul(x, constant(0x1p23)), x);
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
  Value offset = k.constantI(0x3f3504f3, bits); // sqrt(1/2)
  Value raw = k.sub(k.bitcast(scaled, bits), offset);
  Value exponent = arith::ShRSIOp::create(k.b, raw, k.constantI(23, bits));
  Value m = k.bitcast(k.add(k.bitAnd(raw, k.constantI(0x7fffff, bits)), offset),
                      type);
  Value e = arith::SIToFPOp::create(k.b, type, exponent);
  e = k.add(e, k.select(tiny, constant(-23), constant(0)));
  // log(x) = log(1 + f) + e ln 2, where log(1 + f) = f - f^2/2 + f^3 P(f). The
  // factor ln 2 is stored as the sum of two constants.
  Value f = k.sub(m, constant(1.0));
  Value p = k.polynomial(f, {0.0691554099, -0.117898643, 0.118729256,
                             -0.12384335, 0.142186642, -0.166692525,
                             0.200022265, -0.249999866, 0.333333105});
  Value square = k.mul(f, f);
  Value y = k.mul(k.mul(p, f), square);
  y = k.fma(e, constant(-2.12194440e-4), y);
  y = k.fma(square, constant(-0.5), y);
  y = k.fma(e, constant(0.693359375), k.add(f, y));

  double infinity = std::numeric_limits<double>::infinity();
  Value isInfinite = k.equal(x, constant(infinity));
  y = k.select(isInfinite, x, y);
  y = k.select(k.equal(x, constant(0)), constant(-infinity), y);
  // The result is NaN unless x >= 0. The comparison is false for NaN.
  Value valid =
      arith::CmpFOp::create(k.b, arith::CmpFPredicate::OGE, x, constant(0));
  return k.select(valid, y, constant(std::numeric_limits<double>::quiet_NaN()));
}

Value emitTanh(ArithBuilder &k, Value x) {
  if (isDouble(x))
    return k.callLibrary("tanh", x);
  Type type = x.getType();
  auto constant = [&](double value) { return k.constantF(value, type); };
  Value a = k.abs(x);
  Value square = k.mul(x, x);
  Value p = k.polynomial(square, {-0.00571704516, 0.020650588, -0.0537434965,
                                  0.133314908, -0.333332837});
  Value small = k.fma(k.mul(p, square), x, x);
  Value e = emitExp(k, k.add(a, a));
  Value large =
      k.sub(constant(1.0), k.div(constant(2.0), k.add(e, constant(1.0))));
  return k.select(k.less(a, constant(0.625)), small, k.copySign(large, x));
}

Value emitSigmoid(ArithBuilder &k, Value x) {
  Value one = k.constantF(1.0, x.getType());
  return k.div(one, k.add(one, emitExp(k, k.neg(x))));
}

Value emitErf(ArithBuilder &k, Value x) {
  if (isDouble(x))
    return k.callLibrary("erf", x);
  Type type = x.getType();
  auto constant = [&](double value) { return k.constantF(value, type); };
  Value square = k.mul(x, x);
  Value p = k.polynomial(square, {8.34522725e-05, -0.000813743798,
                                  0.00520063424, -0.0268592704, 0.112836942,
                                  -0.376126349, 0.128379166});
  Value small = k.fma(p, x, x);
  // q approximates log(erfc(a)), and erf(a) = 1 - exp(q). For a >= 4, erf(a)
  // rounds to 1 in f32.
  Value a = k.min(k.abs(x), constant(4.0));
  Value q = k.polynomial(a, {-2.10949656e-05, 0.00043446169, -0.004171059,
                             0.0251194164, -0.108280078, -0.633346915,
                             -1.12951493, 0.000174683242});
  Value large = k.copySign(k.sub(constant(1.0), emitExp(k, q)), x);
  return k.select(k.less(a, constant(0.92)), small, large);
}

Value emitRandomKey(ArithBuilder &k, Value seed, Value key) {
  constexpr uint64_t golden = 0x9E3779B97F4A7C15;
  auto constant = [&](uint64_t value) {
    return k.i64Constant(static_cast<int64_t>(value));
  };
  // splitmix64 adds `golden` to its state before it mixes the bits.
  Value z = k.add(seed, k.mul(constant(golden), k.add(key, constant(1))));
  z = k.add(z, constant(golden));
  z = k.mul(k.bitXor(z, k.shiftRight(z, 30)), constant(0xBF58476D1CE4E5B9));
  z = k.mul(k.bitXor(z, k.shiftRight(z, 27)), constant(0x94D049BB133111EB));
  return k.bitXor(z, k.shiftRight(z, 31));
}

std::array<Value, 4> emitPhilox(ArithBuilder &k, Value key,
                                std::array<Value, 4> c) {
  Type words = c[0].getType();
  Value low = k.constantI(0xffffffff, words);
  auto product = [&](uint32_t multiplier, Value x) {
    return k.mul(k.bitAnd(x, low), k.constantI(multiplier, words));
  };
  auto spread = [&](Value x) {
    return isa<VectorType>(words) ? k.broadcast(x) : x;
  };
  Value key0 = key, key1 = k.shiftRight(key, 32);
  for (int round = 0; round < 10; ++round) {
    Value p0 = product(0xD2511F53, c[0]), p1 = product(0xCD9E8D57, c[2]);
    c = {k.bitXor(k.bitXor(k.shiftRight(p1, 32), c[1]), spread(key0)), p1,
         k.bitXor(k.bitXor(k.shiftRight(p0, 32), c[3]), spread(key1)), p0};
    key0 = k.add(key0, k.i64Constant(0x9E3779B9));
    key1 = k.add(key1, k.i64Constant(0xBB67AE85));
  }
  for (Value &word : c)
    word =
        arith::TruncIOp::create(k.b, ArithBuilder::like(words, k.i32()), word);
  return c;
}

std::array<Value, 4> emitRandomBlock(ArithBuilder &k, Value key, Value block,
                                     Value counter1, Value counter2,
                                     Value counter3) {
  return emitPhilox(
      k, key,
      {k.add(k.broadcast(k.shiftLeft(block, 4)), k.lanes(k.i64())),
       k.broadcast(counter1), k.broadcast(counter2), k.broadcast(counter3)});
}

Value emitRandomWord(ArithBuilder &k, Value key, Value counter1, Value counter2,
                     Value counter3) {
  return emitPhilox(k, key,
                    {k.i64Constant(0), counter1, counter2, counter3})[0];
}

void RandomSource::startRow(ArithBuilder &k, Value number,
                            int64_t rowsPerSequence) {
  Value period = k.i64Constant(rowsPerSequence);
  rowInSequence = k.remUnsigned(number, period);
  sequence = k.add(firstSequence, k.divUnsigned(number, period));
}

} // namespace kiln
