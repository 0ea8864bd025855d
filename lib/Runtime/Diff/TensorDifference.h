//===- TensorDifference.h - How far two tensors are apart -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Elements are compared by their bits: NaNs of the same bits are equal, zeros
// of two signs are not. Norms are Euclidean, in f64.
//
// Rounding. Two programs that compute the same formulas in another order give
// results that differ by at most
//
//     8 (sqrt(L) eps |x| + s)
//
// in norm, as a rule: L is the longest sum of the step, eps the spacing of the
// type at 1, |x| the norm of the tensor, and s how far the same program moves
// the tensor when its weights are off by eps. s matters where terms cancel, and
// where an optimizer divides a small gradient by its own size.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_DIFF_TENSORDIFFERENCE_H
#define KILN_LIB_RUNTIME_DIFF_TENSORDIFFERENCE_H

#include "kiln/Support/ElementType.h"

#include <cstdint>

namespace kiln::runtime {

struct TensorDifference {
  int64_t elements = 0;  ///< Compared.
  int64_t different = 0; ///< Of other bits.
  int64_t first = -1;    ///< Index of the first of those, in row-major order.
  double firstA = 0, firstB = 0;
  uint64_t firstUlps = 0;
  double maxAbsolute = 0;
  uint64_t maxUlps = 0;
  double norm = 0;             ///< Of the difference; NaN if that is.
  double normA = 0, normB = 0; ///< Of the tensors.

  /// norm, relative to the larger tensor.
  double relative() const;
};

/// Compares two tensors of one type piece by piece, in order.
class DifferenceMeter {
public:
  explicit DifferenceMeter(ElementType type) : type_(type) {}
  void add(const void *a, const void *b, int64_t count);
  TensorDifference result() const;

private:
  ElementType type_;
  TensorDifference sums_; ///< Norms are squared still.
};

/// Values of `type` between two values, given as their bits; 0 for types that
/// are not of floating point. Both zeros are one value.
uint64_t ulpsBetween(ElementType type, const void *a, const void *b);

/// The bound of the header.
double roundingBound(double eps, double longestSum, double norm,
                     double sensitivity);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_TENSORDIFFERENCE_H
