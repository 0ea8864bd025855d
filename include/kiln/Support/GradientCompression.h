//===- GradientCompression.h - Compressed sums of gradients -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_GRADIENTCOMPRESSION_H
#define KILN_SUPPORT_GRADIENTCOMPRESSION_H

#include "kiln/Support/Status.h"

#include <string>
#include <string_view>

namespace kiln::support {

enum class CompressionScheme {
  None,
  Int8,     ///< Ranks sum codes of 8 bits.
  PowerSgd, ///< Ranks sum two factors of a matrix, of a low rank.
  GradZip,  ///< Ranks sum one of two such factors, in turns.
  /// Ranks sum sketches of matrices, and the elements that are large in them.
  CountSketch,
};

/// The value of --compress-gradients.
struct GradientCompression {
  CompressionScheme scheme = CompressionScheme::None;
  /// The rank R of low-rank matrices, or the number C of elements of a matrix
  /// per element of its sketch. 0 for schemes without a size.
  int64_t size = 0;

  /// Returns the text that parseGradientCompression() reads, such as
  /// "powersgd:4".
  std::string text() const;
  bool any() const { return scheme != CompressionScheme::None; }
  /// Returns true if the scheme has states, such as the errors, which are what
  /// ranks have not sent.
  bool hasStates() const { return any() && scheme != CompressionScheme::Int8; }
};

/// The states of a compressed gradient. In a run that is resumed, each state
/// that the checkpoint lacks, or has with another shape, starts from its
/// initial value.
///
/// A scheme with states has an error: what each rank has not sent. PowerSGD and
/// GradZIP have the bases of the previous step, of columns and, for GradZIP, of
/// rows. GradZIP also has the turn, the number 0 or 1. A count sketch has
/// numbers whose signs are those of the rows in its tables.
inline constexpr std::string_view errorSlot = "error", basisSlot = "basis",
                                  rowBasisSlot = "row_basis", turnSlot = "turn",
                                  signsSlot = "signs";

/// Returns true for a slot of the states above.
bool isCompressionSlot(std::string_view slot);

/// The largest number of ranks that sum 8-bit codes: the codes of more ranks
/// would have too few levels each.
inline constexpr int64_t maxInt8Ranks = 32;

/// Parses the name of a scheme, followed by ':' and its size if it has one, or
/// an empty text for no compression. Errors have the exit code Usage and begin
/// with a verb.
Result<GradientCompression> parseGradientCompression(std::string_view text);

/// Returns true if `encoding`, of those that make gradients approximate, is one
/// of gradients that ranks sum, such as "powersgd:4", and not of residuals.
bool isOfGradients(std::string_view encoding);

/// Returns true for an encoding of gradients with states.
bool hasCompressionStates(std::string_view encoding);

} // namespace kiln::support

#endif // KILN_SUPPORT_GRADIENTCOMPRESSION_H
