//===- GradientCompression.h - Compressed sums of gradients -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_GRADIENTCOMPRESSION_H
#define KILN_SUPPORT_GRADIENTCOMPRESSION_H

#include "kiln/Support/Status.h"

#include <string_view>

namespace kiln::support {

/// The value of --compress-gradients.
struct GradientCompression {
  /// Rank of the matrices whose product approximates a gradient (PowerSGD), or
  /// 0.
  int64_t rank = 0;
  bool isInt8 = false; ///< Ranks sum codes of 8 bits.

  bool any() const { return isInt8 || rank > 0; }
};

/// The states of a compressed gradient: what each rank has not sent, and the
/// basis of the previous step. A run that is resumed from a checkpoint without
/// these states, or with those of another mesh or rank of the factors, starts
/// from their initial values.
inline constexpr std::string_view errorSlot = "error", basisSlot = "basis";

/// The largest number of ranks that sum 8-bit codes: the codes of more ranks
/// would have too few levels each.
inline constexpr int64_t maxInt8Ranks = 32;

/// The highest rank of PowerSGD: larger ranks cost more time than they save.
inline constexpr int64_t maxCompressionRank = 64;

/// Parses "int8" or "powersgd:R", or an empty text for no compression. Errors
/// have the exit code Usage and begin with a verb.
Result<GradientCompression> parseGradientCompression(std::string_view text);

/// Returns true if `encoding`, of those that make gradients approximate, is one
/// of gradients that ranks sum, such as "powersgd:4", and not of residuals.
bool isOfGradients(std::string_view encoding);

/// Returns true for an encoding of gradients whose errors are states.
bool isPowerSgd(std::string_view encoding);

} // namespace kiln::support

#endif // KILN_SUPPORT_GRADIENTCOMPRESSION_H
