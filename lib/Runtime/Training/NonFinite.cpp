//===- NonFinite.cpp - Search for infinities and NaNs ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NonFinite.h"

#include "kiln/Support/ElementConversion.h"

#include <cmath>

using namespace kiln::support;

namespace kiln::runtime {

template <typename T>
static bool hasNonFinite(const char *data, int64_t count) {
  auto *values = reinterpret_cast<const T *>(data);
  T sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += values[i] * T(0);
  return sum != 0;
}

bool hasNonFinite(ElementType type, const char *data, int64_t count) {
  if (type == ElementType::F32)
    return hasNonFinite<float>(data, count);
  if (type == ElementType::F64)
    return hasNonFinite<double>(data, count);
  if (!isNarrowFloat(type))
    return false;
  for (int64_t i = 0; i < count; ++i) {
    float converted;
    convertElements(type, data + bytesOf(type, i), ElementType::F32, &converted,
                    1);
    if (!std::isfinite(converted))
      return true;
  }
  return false;
}

void NonFiniteFinder::operator()(const OpResult &result) {
  // If a command does not write a whole buffer, the rest of the buffer may
  // still contain bytes of an earlier buffer at the same address.
  if (!name_.empty() || !result.type || !result.whole)
    return;
  result.forEachPart([&](const char *data, int64_t bytes) {
    if (hasNonFinite(*result.type, data, bytes / bytesOf(*result.type)))
      name_ = result.name;
  });
}

} // namespace kiln::runtime
