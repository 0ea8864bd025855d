//===- RowOps.h - Operations on the rows of matrices ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_ROWOPS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_ROWOPS_H

#include "GradientSchemes.h"

namespace kiln {

/// Low-rank schemes add the previous basis, times this factor, to the next
/// basis. If a gradient is zero, the basis is thus not lost. Otherwise the
/// addend is so small that rounding absorbs it.
inline constexpr double kKeptPart = 1e-15;

/// Builds the operations on rows that the low-rank schemes of gradient
/// compression (PowerSGD and GradZip) share.
struct RowOps : LayerOps {
  using LayerOps::LayerOps;

  /// Returns the dot product of two rows, as a vector of one element.
  mlir::Value dot(mlir::Value a, mlir::Value b);
  /// Multiplies a tensor by the element of a vector of one element.
  mlir::Value times(mlir::Value tensor, mlir::Value factor);
  /// Orthonormalizes the rows of a matrix with the modified Gram-Schmidt
  /// process. A row of zeros remains zero.
  mlir::Value orthonormalRows(mlir::Value matrix);
};

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_ROWOPS_H
