//===- SumElements.cpp - Sums of received elements ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SumElements.h"

#include "kiln/Support/ElementConversion.h"

#include <algorithm>
#include <cstddef>

using namespace kiln::support;

namespace kiln::runtime {

template <typename T>
static void add(const char *from, char *to, int64_t count) {
  const T *__restrict source = reinterpret_cast<const T *>(from);
  T *__restrict target = reinterpret_cast<T *>(to);
  for (int64_t i = 0; i < count; ++i)
    target[i] = static_cast<T>(source[i] + target[i]);
}

/// Adds elements that are narrower than f32, a block at a time.
static void addNarrow(ElementType type, const char *from, char *to,
                      int64_t count) {
  constexpr int64_t block = 1024;
  float a[block], b[block];
  int64_t elementBytes = bytesOf(type);
  for (int64_t first = 0; first < count; first += block) {
    auto size = std::size_t(std::min(block, count - first));
    char *place = to + first * elementBytes;
    convertElements(type, from + first * elementBytes, ElementType::F32, a,
                    size);
    convertElements(type, place, ElementType::F32, b, size);
    for (std::size_t i = 0; i < size; ++i)
      b[i] = a[i] + b[i];
    convertElements(ElementType::F32, b, type, place, size);
  }
}

bool isSummable(ElementType type) {
  return type == ElementType::I8 ||
         (isFloat(type) && !infoOf(type).storageOnly);
}

void addElements(ElementType type, const char *from, char *to, int64_t count) {
  if (type == ElementType::F64)
    add<double>(from, to, count);
  else if (type == ElementType::F32)
    add<float>(from, to, count);
  else if (type == ElementType::I8)
    add<int8_t>(from, to, count);
  else
    addNarrow(type, from, to, count);
}

} // namespace kiln::runtime
