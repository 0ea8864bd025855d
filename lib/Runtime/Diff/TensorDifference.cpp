//===- TensorDifference.cpp - Distance between two tensors ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorDifference.h"
#include "kiln/Support/ElementConversion.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kiln::runtime {

double TensorDifference::relative() const {
  double larger = std::max(normA, normB);
  return norm == 0 ? 0 : norm / larger;
}

/// Returns the position of a floating-point value among all values of its type
/// in ascending order. Both zeros have position 0.
template <typename Bits> static int64_t positionOf(const void *value) {
  Bits bits;
  std::memcpy(&bits, value, sizeof(bits));
  constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  return bits & sign ? -int64_t(bits & Bits(~sign)) : int64_t(bits);
}

template <typename Bits>
static uint64_t distance(const void *a, const void *b) {
  int64_t first = positionOf<Bits>(a), second = positionOf<Bits>(b);
  return uint64_t(std::max(first, second)) - uint64_t(std::min(first, second));
}

uint64_t ulpsBetween(ElementType type, const void *a, const void *b) {
  switch (isFloat(type) ? bitsOf(type) : 0) {
  case 64:
    return distance<uint64_t>(a, b);
  case 32:
    return distance<uint32_t>(a, b);
  case 16:
    return distance<uint16_t>(a, b);
  default:
    return 0;
  }
}

void DifferenceMeter::add(const void *a, const void *b, int64_t count) {
  size_t bytes = bytesOf(type_);
  const char *left = static_cast<const char *>(a);
  const char *right = static_cast<const char *>(b);
  constexpr int64_t block = 512;
  double valuesA[block], valuesB[block];
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t size = std::min(block, count - begin);
    const char *blockA = left + size_t(begin) * bytes;
    const char *blockB = right + size_t(begin) * bytes;
    convertElements(type_, blockA, ElementType::F64, valuesA, size_t(size));
    convertElements(type_, blockB, ElementType::F64, valuesB, size_t(size));
    for (int64_t i = 0; i < size; ++i) {
      double x = valuesA[i], y = valuesB[i];
      sums_.normA += x * x;
      sums_.normB += y * y;
      const char *bitsA = blockA + size_t(i) * bytes;
      const char *bitsB = blockB + size_t(i) * bytes;
      if (std::memcmp(bitsA, bitsB, bytes) == 0)
        continue;
      uint64_t ulps = ulpsBetween(type_, bitsA, bitsB);
      if (sums_.different++ == 0) {
        sums_.first = sums_.elements + begin + i;
        sums_.firstA = x;
        sums_.firstB = y;
        sums_.firstUlps = ulps;
      }
      sums_.norm += (x - y) * (x - y);
      sums_.maxAbsolute = std::fmax(sums_.maxAbsolute, std::fabs(x - y));
      sums_.maxUlps = std::max(sums_.maxUlps, ulps);
    }
  }
  sums_.elements += count;
}

TensorDifference DifferenceMeter::result() const {
  TensorDifference result = sums_;
  result.norm = std::sqrt(result.norm);
  result.normA = std::sqrt(result.normA);
  result.normB = std::sqrt(result.normB);
  return result;
}

double roundingBound(double eps, double longestSum, double norm,
                     double sensitivity) {
  return 8 * (std::sqrt(longestSum) * eps * norm + sensitivity);
}

} // namespace kiln::runtime
