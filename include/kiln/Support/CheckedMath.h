//===- CheckedMath.h - Overflow-checked size arithmetic ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions for sizes, offsets and counts that are computed from the contents
// of a file. They return nullopt if the exact result does not fit its type.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_CHECKEDMATH_H
#define KILN_SUPPORT_CHECKEDMATH_H

#include <cstdint>
#include <optional>
#include <type_traits>

namespace kiln::support {

template <typename T> std::optional<T> checkedAdd(T a, T b) {
  static_assert(std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>);
  T result;
  if (__builtin_add_overflow(a, b, &result))
    return std::nullopt;
  return result;
}

template <typename T> std::optional<T> checkedMul(T a, T b) {
  static_assert(std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>);
  T result;
  if (__builtin_mul_overflow(a, b, &result))
    return std::nullopt;
  return result;
}

/// Returns the smallest multiple of `alignment` that is at least `value`.
/// Returns nullopt if the multiple does not fit, if `alignment` is not
/// positive, or if `value` is negative.
template <typename T> std::optional<T> checkedAlignUp(T value, T alignment) {
  if (value < 0 || alignment <= 0)
    return std::nullopt;
  T rest = value % alignment;
  return rest == 0 ? value : checkedAdd<T>(value, alignment - rest);
}

/// Returns the product of all dimensions, or 1 if there are none. Returns
/// nullopt if a dimension is negative, or if the product of all dimensions that
/// are not zero exceeds INT64_MAX.
template <typename Range>
std::optional<int64_t> checkedElements(const Range &shape) {
  int64_t product = 1;
  bool overflow = false, zero = false;
  for (int64_t dim : shape) {
    if (dim < 0)
      return std::nullopt;
    zero |= dim == 0;
    overflow |= __builtin_mul_overflow(product, dim == 0 ? 1 : dim, &product);
  }
  if (overflow)
    return std::nullopt;
  return zero ? 0 : product;
}

} // namespace kiln::support

#endif // KILN_SUPPORT_CHECKEDMATH_H
