//===- ElementConversion.h - Conversion between element types ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversion among the element types that are numbers on their own. A
// conversion rounds once, to nearest even; values beyond the range of the
// destination become infinite.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_ELEMENTCONVERSION_H
#define KILN_SUPPORT_ELEMENTCONVERSION_H

#include "kiln/Support/ElementType.h"

#include <cstddef>

namespace kiln::support {

/// True if convertElements supports the pair: equal types of whole bytes, or
/// any of F64..Bool to F64, F32, F16 or BF16.
bool isConvertible(ElementType from, ElementType to);

/// Converts `count` elements. The ranges must not overlap and need no
/// alignment; isConvertible(from, to) must hold.
void convertElements(ElementType from, const void *source, ElementType to,
                     void *destination, std::size_t count);

/// The number of the float type `type` that is nearest to `value`.
double roundTo(ElementType type, double value);

float halfToFloat(uint16_t bits);
float bfloatToFloat(uint16_t bits);
uint16_t doubleToHalf(double value);
uint16_t doubleToBfloat(double value);

} // namespace kiln::support

#endif // KILN_SUPPORT_ELEMENTCONVERSION_H
