//===- NarrowRows.h - Conversion of matrices of narrow floats ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions between f32 and a 16-bit float `type`, which is BF16 or F16. A
// leading dimension counts elements.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_NARROWROWS_H
#define KILN_LIB_RUNTIME_ENGINE_NARROWROWS_H

#include "kiln/Support/ElementType.h"

#include <cstdint>

namespace kiln::runtime {

/// Converts a matrix of `type` with leading dimension `ld` to a matrix of f32
/// with leading dimension `toLd`.
void widenRows(support::ElementType type, const char *from, int64_t ld,
               int64_t rows, int64_t columns, float *to, int64_t toLd);

/// Converts f32 to `type`, rounding to nearest even; NaN stays NaN.
void narrowRows(support::ElementType type, const float *from, int64_t fromLd,
                int64_t rows, int64_t columns, char *to, int64_t ld);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_NARROWROWS_H
