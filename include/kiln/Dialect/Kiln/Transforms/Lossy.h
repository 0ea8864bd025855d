//===- Lossy.h - The lossy techniques a user names --------------*- C++ -*-===//
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

/// NAME:VALUE[,NAME:VALUE], for example "fewbit:3,rmm:0.2".
struct LossySpec {
  /// Bits per element kept for the derivative of an activation; 0: its input.
  int64_t fewbit = 0;
  /// Share of the rows kept for a weight gradient; 0: all of them.
  double rmm = 0;

  /// Parses the text, which may be empty; on failure returns nothing and says
  /// why in `error`.
  static std::optional<LossySpec> parse(llvm::StringRef text,
                                        std::string &error);
};

/// Rows that the sketch of a sequence of `length` rows keeps: share * length,
/// rounded. 0 when that is none or all of them.
int64_t sketchRows(int64_t length, double share);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_LOSSY_H
