//===- WeightEncoding.h - Encodings of frozen weights -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The encodings that --quantize-weights chooses from: NF4 (Nf4.h) and int8
// (Int8.h).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_WEIGHTENCODING_H
#define KILN_SUPPORT_WEIGHTENCODING_H

#include "kiln/Support/Int8.h"
#include "kiln/Support/Nf4.h"
#include "kiln/Support/Status.h"

#include <string_view>
#include <variant>

namespace kiln::support {

/// The layout of the bytes of an encoded matrix.
using WeightLayout = std::variant<Nf4Layout, Int8Layout>;

/// The names of the encodings, for messages.
inline constexpr const char *weightEncodings = "nf4 or int8";

/// Returns the size of the encoded matrix in bytes.
int64_t bytesOf(const WeightLayout &layout);

/// Decodes the elements [first, first + count) of the matrix in `bytes`, which
/// an encoder wrote, to `to`.
void decodeWeight(const char *bytes, const WeightLayout &layout, int64_t first,
                  int64_t count, float *to);

/// The value of --quantize-weights.
struct WeightEncodingChoice {
  bool isInt8 = false;
  // int8 only:
  /// Number of input features of each layer whose weights (columns or rows of
  /// the matrix) are stored in bf16 instead of int8.
  int64_t outliers = 0;
  bool rowScales = false; ///< A scale per row instead of one per 64 elements.
};

/// Parses "nf4" or "int8", which may be followed by ":" and a list of options,
/// such as "int8:outliers=4,scales=row". Errors have the exit code Usage and
/// messages that begin with a verb.
Result<WeightEncodingChoice> parseWeightEncoding(std::string_view text);

} // namespace kiln::support

#endif // KILN_SUPPORT_WEIGHTENCODING_H
