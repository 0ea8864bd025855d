//===- Quantization.h - Layouts of quantized weights ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_QUANTIZATION_H
#define KILN_DIALECT_KILN_IR_QUANTIZATION_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Support/WeightEncoding.h"

#include <cstdint>

namespace kiln {

/// The table of `kiln.dequantize` for NF4 has the values of all codes of
/// scales, followed by the values of all codes of elements.
inline constexpr int64_t kScaleCodes = 256, kElementCodes = 16,
                         kNf4TableElements = kScaleCodes + kElementCodes;

/// Returns the layout of the bytes that encode the weight that `quantized`
/// describes.
support::WeightLayout layoutOf(QuantizedAttr quantized);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_QUANTIZATION_H
