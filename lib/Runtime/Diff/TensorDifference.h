//===- TensorDifference.h - Distance between two tensors --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Elements are compared by their bits: NaNs with equal bits are equal, and
// zeros of different signs differ. Norms are Euclidean and computed in f64.
//
// Rounding bound. Two programs that evaluate the same formulas in different
// orders usually give results whose difference has a norm of at most
//
//     8 (sqrt(L) eps |x| + s)
//
// where L is the length of the longest sum of the step, eps the spacing of the
// type at 1, |x| the norm of the tensor, and s the norm of the change of the
// tensor when the same program starts from weights perturbed by eps. s
// dominates if terms cancel, or if an optimizer divides a small gradient by its
// magnitude.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_DIFF_TENSORDIFFERENCE_H
#define KILN_LIB_RUNTIME_DIFF_TENSORDIFFERENCE_H

#include "kiln/Support/ElementType.h"

#include <cstdint>

namespace kiln::runtime {

struct TensorDifference {
  int64_t elements = 0;  ///< Number of compared elements.
  int64_t different = 0; ///< Number of elements whose bits differ.
  int64_t first = -1;    ///< First differing element in row-major order.
  double firstA = 0, firstB = 0;
  uint64_t firstUlps = 0;
  double maxAbsolute = 0;
  uint64_t maxUlps = 0;
  /// Norm of the difference; NaN if the difference contains a NaN.
  double norm = 0;
  double normA = 0, normB = 0; ///< Norms of the tensors.

  /// Returns norm / max(normA, normB).
  double relative() const;
};

/// Compares two tensors of one type, whose elements add() receives in
/// consecutive blocks.
class DifferenceMeter {
public:
  explicit DifferenceMeter(ElementType type) : type_(type) {}
  void add(const void *a, const void *b, int64_t count);
  TensorDifference result() const;

private:
  ElementType type_;
  /// Contains sums of squares instead of norms; result() takes the roots.
  TensorDifference sums_;
};

/// Returns the ULP distance between two values given by their bits, or 0 if
/// `type` is not a floating-point type. Both zeros count as one value.
uint64_t ulpsBetween(ElementType type, const void *a, const void *b);

/// Returns the rounding bound that is defined at the top of this file.
double roundingBound(double eps, double longestSum, double norm,
                     double sensitivity);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_TENSORDIFFERENCE_H
