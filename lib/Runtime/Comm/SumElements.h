//===- SumElements.h - Sums of received elements ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_SUMELEMENTS_H
#define KILN_LIB_RUNTIME_COMM_SUMELEMENTS_H

#include "kiln/Support/ElementType.h"

#include <cstdint>

namespace kiln::runtime {

/// Returns true if addElements() supports the type: f64, f32, bf16, f16 and i8.
bool isSummable(ElementType type);

/// Adds `count` elements of `from` to those of `to`. Each bf16 or f16 sum is
/// computed in f32 and rounded once, to nearest even. Sums of i8 that are not
/// in its range wrap around. The ranges must be aligned to elements and must
/// not overlap.
void addElements(ElementType type, const char *from, char *to, int64_t count);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_SUMELEMENTS_H
