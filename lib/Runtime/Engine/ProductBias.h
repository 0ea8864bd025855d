//===- ProductBias.h - A row added to a product -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the library of a GPU does in its epilogue, for what stands in for it:
// sums of f32 get their bias before they are rounded to the result's type.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_PRODUCTBIAS_H
#define KILN_LIB_RUNTIME_ENGINE_PRODUCTBIAS_H

#include "kiln/Runtime/Files/TensorType.h"

#include <cstdint>

namespace kiln {

/// Adds `bias`, `columns` elements of f32 or bf16, to each of `rows` rows of f32
/// that begin `ld` elements apart.
void addBias(const char *bias, TensorType type, int64_t rows, int64_t columns,
             char *sums, int64_t ld);

} // namespace kiln

#endif // KILN_LIB_RUNTIME_ENGINE_PRODUCTBIAS_H
