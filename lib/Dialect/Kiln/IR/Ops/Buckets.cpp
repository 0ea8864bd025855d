//===- Buckets.cpp - Bucket encoding with a few bits per element ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels use codes of b bits as indices into tables of levels. The verifiers
// require tables of 2^b entries, so every code is in bounds.
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "ReferenceRules.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::reference;

/// Returns the bits per code for a number of buckets that is a power of two.
static int64_t codeBits(size_t buckets) { return llvm::Log2_64(buckets); }

static bool isBucketCount(size_t count) {
  return count >= 2 && count <= 256 && llvm::isPowerOf2_64(count);
}

static LogicalResult checkCodes(Operation *op, Value codes, Value values,
                                size_t buckets) {
  int64_t bits = codeBits(buckets) * tensorTypeOf(values).getNumElements();
  return checkShape(op, "codes", codes,
                    static_cast<int64_t>(llvm::divideCeil(bits, 8)), Value());
}

/// Sets bit number `bit` of the codes. Each int64_t in codes.integers is one
/// byte of the codes, sign-extended.
static void setBit(HostTensor &codes, int64_t bit) {
  int64_t &byte = codes.integers[bit / 8];
  byte = static_cast<int8_t>(byte | int64_t(1) << bit % 8);
}

static bool hasBit(const HostTensor &codes, int64_t bit) {
  return codes.integers[bit / 8] >> bit % 8 & 1;
}

//===----------------------------------------------------------------------===//
// bucket_encode
//===----------------------------------------------------------------------===//

LogicalResult BucketEncodeOp::verify() {
  ArrayRef<double> borders = getBorders();
  if (!isBucketCount(borders.size() + 1)) // Constraint C1.
    return emitOpError("has ")
           << borders.size() << " borders, expected 1, 3, 7, ... or 255";
  bool isSingle = fullPrecision(getX().getType()).getElementType().isF32();
  for (auto [i, border] : llvm::enumerate(borders)) { // Constraint C2.
    if (!std::isfinite(border) || (isSingle && border != float(border)))
      return emitOpError("has the border ")
             << border
             << ", expected a finite number with an exact representation in "
             << fullPrecision(getX().getType()).getElementType();
    if (i > 0 && !(borders[i - 1] < border))
      return emitOpError("has the border ")
             << border << " after " << borders[i - 1]
             << ", expected increasing borders";
  }
  return checkCodes(*this, getCodes(), getX(),
                    borders.size() + 1); // Constraint C3.
}

StringRef BucketEncodeOp::getKernelFamily() { return "bucket"; }

LogicalResult BucketEncodeOp::evaluate(Operands operands, Results results) {
  ArrayRef<double> borders = getBorders();
  int64_t bits = codeBits(borders.size() + 1);
  for (auto [i, x] : llvm::enumerate(operands[0]->reals)) {
    int64_t code = 0;
    for (double border : borders)
      code += x > border;
    for (int64_t bit = 0; bit < bits; ++bit)
      if (code >> bit & 1)
        setBit(results[0], bits * static_cast<int64_t>(i) + bit);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// bucket_decode
//===----------------------------------------------------------------------===//

LogicalResult BucketDecodeOp::verify() {
  ArrayRef<double> levels = getLevels();
  if (!isBucketCount(levels.size())) // Constraint C1.
    return emitOpError("has ")
           << levels.size() << " levels, expected 2, 4, 8, ... or 256";
  for (double level : levels)
    if (!std::isfinite(level))
      return emitOpError("has the level ")
             << level << ", expected a finite number";
  return checkCodes(*this, getCodes(), getDy(),
                    levels.size()); // Constraint C2.
}

StringRef BucketDecodeOp::getKernelFamily() { return "bucket"; }

LogicalResult BucketDecodeOp::evaluate(Operands operands, Results results) {
  SmallVector<double> levels(getLevels());
  int64_t bits = codeBits(levels.size());
  if (fullPrecision(results[0].type).getElementType().isF32())
    for (double &level : levels)
      level = static_cast<float>(level);
  for (auto [i, dy] : llvm::enumerate(operands[1]->reals)) {
    int64_t code = 0;
    for (int64_t bit = 0; bit < bits; ++bit)
      code |=
          int64_t(hasBit(*operands[0], bits * static_cast<int64_t>(i) + bit))
          << bit;
    results[0].reals[i] = levels[code] == 0 ? 0 : levels[code] * dy;
  }
  return success();
}
