//===- Blocks.cpp - Codes of blocks of elements ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block, a group of elements that share a scale, is a row of the row space.
// With 4-bit codes, byte i has the codes of elements i and i + n / 2 of the n
// encoded elements. These two elements are in the same column of their blocks,
// so row programs need not move elements to other columns.
//
//===----------------------------------------------------------------------===//

#include "KilnReferenceRandom.h"
#include "OpChecks.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::reference;

using NodeId = row::NodeId;
using Kind = row::Kind;

static constexpr double infinity = std::numeric_limits<double>::infinity();

/// Returns the largest code of `bits` bits.
static double largestCode(int64_t bits) {
  return static_cast<double>((int64_t(1) << (bits - 1)) - 1);
}

static int64_t countOf(Value value) {
  return tensorTypeOf(value).getNumElements();
}

/// Returns the space whose rows are the blocks of `x`.
static RowSpace blocksOf(Value x, Value scales) {
  int64_t blocks = countOf(scales);
  return {blocks, countOf(x) / blocks, /*flexible=*/false};
}

/// Checks the scales of the blocks of `x`.
static LogicalResult checkScales(Operation *op, Value scales, Value x) {
  auto type = tensorTypeOf(scales);
  if (type.getRank() != 1 || countOf(x) % countOf(scales) != 0)
    return op->emitOpError("has scales of type ")
           << type << ", expected one dimension whose size divides "
           << countOf(x) << ", the number of elements";
  return checkFull(op, "scales", scales, type.getShape(), x);
}

//===----------------------------------------------------------------------===//
// Row nodes.
//===----------------------------------------------------------------------===//

/// Rounds a number of magnitude below 2^21 to the nearest integer, ties to
/// even: the addition leaves no bits for a fraction.
static NodeId roundToInteger(RowBuilder &rows, NodeId x) {
  bool isSingle = rows.typeOf(x) == row::Type::F32;
  NodeId shift = rows.constantLike(isSingle ? 0x1.8p23 : 0x1.8p52, x);
  return rows.sub(rows.add(x, shift), shift);
}

/// Returns the code of an element as a floating-point number.
static NodeId codeOf(RowBuilder &rows, NodeId x, NodeId scale, int64_t bits) {
  NodeId inverse = rows.div(rows.constantLike(1, scale), scale);
  NodeId code = roundToInteger(rows, rows.mul(x, inverse));
  // Kind::Min returns its first operand if the second one is NaN, so the code
  // of a NaN is `largest`.
  double largest = largestCode(bits);
  code = rows.binary(Kind::Min, rows.constantLike(largest, code), code);
  return rows.binary(Kind::Max, rows.constantLike(-largest, code), code);
}

//===----------------------------------------------------------------------===//
// block_scales
//===----------------------------------------------------------------------===//

LogicalResult BlockScalesOp::verify() {
  if (getBits() != 8 && getBits() != 4) // Constraint C3.
    return emitOpError("has codes of ")
           << getBits() << " bits, expected 8 or 4";
  return checkScales(*this, getScales(), getX()); // Constraints C1 and C2.
}

RowSpace BlockScalesOp::getRowSpace() { return blocksOf(getX(), getScales()); }

LogicalResult BlockScalesOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x}))
    return failure();
  // Replace NaN by infinity, because reduceMax would ignore a NaN.
  NodeId magnitude = rows.reduceMax(rows.binary(
      Kind::Min, rows.constantLike(infinity, x), rows.unary(Kind::Abs, x)));
  NodeId scale =
      rows.div(magnitude, rows.constantLike(largestCode(getBits()), magnitude));
  bool isSingle = rows.typeOf(scale) == row::Type::F32;
  double least = isSingle ? double(std::numeric_limits<float>::min())
                          : std::numeric_limits<double>::min();
  rows.set(getScales(),
           rows.binary(Kind::Max, rows.constantLike(least, scale), scale));
  return success();
}

template <typename T>
static void evaluateScales(const HostTensor &x, HostTensor &scales, T largest) {
  int64_t length = x.size() / scales.size();
  for (int64_t block = 0, e = scales.size(); block < e; ++block) {
    T magnitude = 0;
    for (int64_t i = 0; i < length; ++i) {
      T size = std::abs(T(x.reals[block * length + i]));
      magnitude = std::isfinite(size) ? std::max(magnitude, size) : T(infinity);
      if (!std::isfinite(size))
        break;
    }
    scales.reals[block] =
        std::max(magnitude / largest, std::numeric_limits<T>::min());
  }
}

LogicalResult BlockScalesOp::evaluate(Operands operands, Results results) {
  double largest = largestCode(getBits());
  if (getScales().getType().getElementType().isF32())
    evaluateScales<float>(*operands[0], results[0], float(largest));
  else
    evaluateScales<double>(*operands[0], results[0], largest);
  return success();
}

//===----------------------------------------------------------------------===//
// block_encode
//===----------------------------------------------------------------------===//

LogicalResult BlockEncodeOp::verify() {
  unsigned parts = getNumParts();
  if (getInputs().size() != 2 && getInputs().size() != 4)
    return emitOpError("has ")
           << getInputs().size()
           << " operands, expected one or two tensors and their scales"; // C1
  if (getPart(0).getType() != getPart(parts - 1).getType() ||
      getScales(0).getType() != getScales(parts - 1).getType())
    return emitOpError("encodes two tensors that differ in type or in the type "
                       "of their scales, expected equal types"); // C1
  if (failed(checkScales(*this, getScales(0), getPart(0))))      // C2
    return failure();
  if (countOf(getCodes()) != countOf(getPart(0))) // C3
    return emitOpError("has ")
           << countOf(getCodes()) << " bytes of codes, expected "
           << countOf(getPart(0))
           << ", one for each element of the first operand";
  return success();
}

RowSpace BlockEncodeOp::getRowSpace() {
  return blocksOf(getPart(0), getScales(0));
}

LogicalResult BlockEncodeOp::buildRows(RowBuilder &rows) {
  if (!hasSpace(rows, getRowSpace()))
    return failure();
  SmallVector<NodeId, 2> codes;
  int64_t bits = 8 / getNumParts();
  for (unsigned i = 0; i < getNumParts(); ++i) {
    NodeId x = rows.full(getPart(i)), scale = rows.perRow(getScales(i));
    if (!areValid({x, scale}))
      return failure();
    codes.push_back(codeOf(rows, x, scale, bits));
  }
  NodeId byte = codes[0];
  if (codes.size() == 2)
    byte = rows.fma(codes[1], rows.constantLike(16, byte), byte);
  rows.set(getCodes(), rows.cast(byte, row::Type::I8));
  return success();
}

template <typename T>
static int64_t referenceCode(double x, double scale, double largest) {
  T code = std::nearbyint(T(x) * (1 / T(scale)));
  return std::isnan(code) ? int64_t(largest)
                          : int64_t(std::clamp(code, T(-largest), T(largest)));
}

LogicalResult BlockEncodeOp::evaluate(Operands operands, Results results) {
  int64_t parts = getNumParts();
  double largest = largestCode(8 / parts);
  bool isSingle = tensorTypeOf(getScales(0)).getElementType().isF32();
  for (int64_t part = 0; part < parts; ++part) {
    const HostTensor &x = *operands[part], &scales = *operands[parts + part];
    int64_t length = x.size() / scales.size();
    for (int64_t i = 0, e = x.size(); i < e; ++i) {
      double scale = scales.reals[i / length];
      int64_t code = isSingle
                         ? referenceCode<float>(x.reals[i], scale, largest)
                         : referenceCode<double>(x.reals[i], scale, largest);
      results[0].integers[i] += part == 0 ? code : 16 * code;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// block_decode
//===----------------------------------------------------------------------===//

LogicalResult BlockDecodeOp::verify() {
  int64_t codes = countOf(getCodes()), elements = countOf(getY());
  if (elements != codes && elements != 2 * codes)
    return emitOpError("decodes ")
           << codes << " bytes to " << elements
           << " elements, expected one or two elements per byte"; // C1
  if (failed(checkScales(*this, getScales(), getY())))            // C2
    return failure();
  if (countOf(getScales()) % getNumParts() != 0)
    return emitOpError("has ") << countOf(getScales())
                               << " scales for two tensors, expected an even "
                                  "number, half of them for each tensor"; // C2
  return success();
}

RowSpace BlockDecodeOp::getRowSpace() { return blocksOf(getY(), getScales()); }

LogicalResult BlockDecodeOp::buildRows(RowBuilder &rows) {
  RowSpace space = getRowSpace();
  if (!hasSpace(rows, space))
    return failure();
  bool isPacked = getNumParts() == 2;
  NodeId scale = rows.perRow(getScales());
  NodeId byte = isPacked ? rows.modulo(getCodes(), space.rows / 2)
                         : rows.full(getCodes());
  if (!areValid({scale, byte}))
    return failure();
  NodeId code = rows.cast(byte, rows.typeOf(scale));
  if (isPacked) {
    // byte = first + 16 * second, and the magnitude of `first` is below 8, so
    // byte / 16 rounds to `second`.
    NodeId second =
        roundToInteger(rows, rows.mul(code, rows.constantLike(1.0 / 16, code)));
    NodeId first = rows.fma(second, rows.constantLike(-16, code), code);
    NodeId isSecond =
        rows.less(rows.constant(double(space.rows / 2 - 1), row::Type::I32),
                  rows.rowIndex());
    code = rows.select(isSecond, second, first);
  }
  rows.set(getY(), rows.mul(scale, code));
  return success();
}

LogicalResult BlockDecodeOp::evaluate(Operands operands, Results results) {
  const HostTensor &codes = *operands[0], &scales = *operands[1];
  HostTensor &y = results[0];
  int64_t length = y.size() / scales.size();
  for (int64_t i = 0, e = y.size(); i < e; ++i) {
    int64_t code = codes.integers[i % codes.size()];
    if (e > codes.size()) {
      // The byte is first + 16 * second, where `first` is the code of element
      // i % codes.size(), a signed number of four bits.
      int64_t first = ((code & 15) ^ 8) - 8;
      code = i < codes.size() ? first : (code - first) / 16;
    }
    y.reals[i] = scales.reals[i / length] * double(code);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// dither
//===----------------------------------------------------------------------===//

LogicalResult DitherOp::verify() {
  if (failed(checkScales(*this, getScales(), getX()))) // Constraint C1.
    return failure();
  return checkRng(*this, getRng()); // Constraint C2.
}

RowSpace DitherOp::getRowSpace() { return blocksOf(getX(), getScales()); }

LogicalResult DitherOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX()), scale = rows.perRow(getScales());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, scale}))
    return failure();
  NodeId bits = rows.random(getRng(), getKey(), rows.getRows());
  NodeId noise =
      rows.mul(rows.cast(bits, rows.typeOf(x)), rows.constantLike(0x1p-32, x));
  rows.set(getY(), rows.add(x, rows.mul(noise, scale)));
  return success();
}

template <typename T>
static void evaluateDither(const HostTensor &x, const HostTensor &scales,
                           const RandomBits &bits, HostTensor &y) {
  int64_t length = x.size() / scales.size();
  for (int64_t i = 0, e = x.size(); i < e; ++i) {
    int64_t block = i / length;
    auto word = static_cast<int32_t>(bits.at(0, block, i % length));
    T noise = static_cast<T>(word) * T(0x1p-32);
    y.reals[i] = T(x.reals[i]) + noise * T(scales.reals[block]);
  }
}

LogicalResult DitherOp::evaluate(Operands operands, Results results) {
  RandomBits bits(*operands[2], getKey());
  if (getScales().getType().getElementType().isF32())
    evaluateDither<float>(*operands[0], *operands[1], bits, results[0]);
  else
    evaluateDither<double>(*operands[0], *operands[1], bits, results[0]);
  return success();
}
