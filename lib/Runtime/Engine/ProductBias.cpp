//===- ProductBias.cpp - A row added to a product -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProductBias.h"

#include <cstring>

namespace kiln {

static float elementOf(const char *bias, TensorType type, int64_t index) {
  uint32_t bits;
  if (type == TensorType::BF16) {
    uint16_t narrow;
    std::memcpy(&narrow, bias + 2 * index, sizeof(narrow));
    bits = uint32_t(narrow) << 16;
  } else {
    std::memcpy(&bits, bias + 4 * index, sizeof(bits));
  }
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void addBias(const char *bias, TensorType type, int64_t rows, int64_t columns,
             char *sums, int64_t ld) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      char *place = sums + 4 * (row * ld + column);
      float sum;
      std::memcpy(&sum, place, sizeof(sum));
      sum += elementOf(bias, type, column);
      std::memcpy(place, &sum, sizeof(sum));
    }
}

} // namespace kiln
