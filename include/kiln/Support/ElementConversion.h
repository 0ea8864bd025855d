//===- ElementConversion.h - Conversion between element types ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts between element types that represent single numbers. A conversion
// rounds once, to nearest even. The FloatFormat of the destination type defines
// the results for values beyond its range.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_ELEMENTCONVERSION_H
#define KILN_SUPPORT_ELEMENTCONVERSION_H

#include "kiln/Support/ElementType.h"

#include <cstddef>

namespace kiln::support {

/// Returns true if convertElements supports the pair: the types are equal and
/// their elements have whole bytes, or `from` is not of kind Opaque and `to` is
/// of kind Float.
bool isConvertible(ElementType from, ElementType to);

/// Converts `count` elements. Requires isConvertible(from, to). The ranges must
/// not overlap and may be unaligned.
void convertElements(ElementType from, const void *source, ElementType to,
                     void *destination, std::size_t count);

/// Rounds `value` to the nearest value of the floating-point type `type`.
double roundTo(ElementType type, double value);

float halfToFloat(uint16_t bits);
float bfloatToFloat(uint16_t bits);
uint16_t doubleToHalf(double value);
uint16_t doubleToBfloat(double value);

} // namespace kiln::support

#endif // KILN_SUPPORT_ELEMENTCONVERSION_H
