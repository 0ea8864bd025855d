//===- Limits.h - Limits of the KilnRT dialect ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILNRT_IR_LIMITS_H
#define KILN_LIB_DIALECT_KILNRT_IR_LIMITS_H

#include <cstdint>

namespace kiln::rt {

/// Upper limit on every size and offset of a program. The limit ensures that
/// sums and products of sizes and offsets do not overflow 64 bits.
inline constexpr uint64_t kMostBytes = uint64_t(1) << 48;

} // namespace kiln::rt

#endif // KILN_LIB_DIALECT_KILNRT_IR_LIMITS_H
