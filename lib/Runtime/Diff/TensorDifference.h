//===- TensorDifference.h - Distance between two tensors --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two elements are equal if their bits are equal. Therefore two NaNs with the
// same bits are equal, and +0 and -0 differ. Norms are Euclidean and computed
// in f64.
//
// Rounding bound. Two programs that evaluate the same formulas in different
// orders usually give results whose difference has a norm of at most
//
//     8 (sqrt(L) eps |x| + s)
//
// where L is the number of terms of the longest sum in the step, eps is the
// distance from 1 to the next larger number of the tensor's type, |x| is the
// norm of the tensor, and s is the sensitivity to rounding of weights: one
// program computes the step twice, from the weights and from weights perturbed
// by eps, and s is the norm of the difference of the two results. s is the
// larger term if terms of a sum cancel, or if an optimizer divides a small
// gradient by the magnitude of that gradient. For the codes of 8-bit moments,
// eps is that of f32, and 1 is added to s: if a number is close to the border
// between two codes, rounding may change its code by one, but the perturbed
// step may not show this.
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
  /// Norm of the elementwise difference; NaN if an element of the difference is
  /// NaN.
  double norm = 0;
  double normA = 0, normB = 0; ///< Norms of the two tensors.

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
  /// The members norm, normA and normB hold sums of squares; result() computes
  /// the square roots.
  TensorDifference sums_;
};

/// Returns the ULP distance between two values given by their bits, or 0 if
/// `type` is not a floating-point type of 16, 32 or 64 bits. Both zeros count
/// as one value.
uint64_t ulpsBetween(ElementType type, const void *a, const void *b);

/// Returns the rounding bound that is defined at the top of this file.
double roundingBound(double eps, double longestSum, double norm,
                     double sensitivity);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_DIFF_TENSORDIFFERENCE_H
