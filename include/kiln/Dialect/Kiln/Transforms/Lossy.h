//===- Lossy.h - Options of lossy compression -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_LOSSY_H
#define KILN_DIALECT_KILN_TRANSFORMS_LOSSY_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kiln {

/// The parsed form of a list of lossy techniques, for example
/// "fewbit:3,rmm:0.2,q8".
struct LossySpec {
  /// Bits per element of the stored derivative of an activation function, or 0
  /// to store the input of the function instead.
  int64_t fewbit = 0;
  /// Fraction of the rows that are stored to estimate a weight gradient (see
  /// sketchRows()), or 0 to store all rows.
  double rmm = 0;
  /// Bits per element of the stored encoding of residuals (8 for "q8", 4 for
  /// "q4"), or 0 to store residuals without encoding.
  int64_t bits = 0;

  /// The techniques that a list may contain.
  static constexpr llvm::StringLiteral expected =
      "fewbit:B, rmm:RHO, and q8 or q4, separated by commas";

  /// Parses the text, which may be empty. On failure, returns std::nullopt and
  /// sets `error` to the reason.
  static std::optional<LossySpec> parse(llvm::StringRef text,
                                        std::string &error);
};

/// Returns the number of rows of the sketch of a sequence with `length` rows:
/// share * length, rounded. The sketch is stored instead of the sequence to
/// estimate a weight gradient. Returns 0, which means that there is no sketch,
/// if the rounded number is 0 or at least `length`.
int64_t sketchRows(int64_t length, double share);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_LOSSY_H
