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
  PowerSgd, ///< Ranks sum both factors of a low-rank approximation.
  GradZip,  ///< Ranks sum one of two factors, alternating per step.
  /// Ranks sum sketches of matrices, then the elements that are large according
  /// to the summed sketches.
  CountSketch,
};

/// The value of --compress-gradients.
struct GradientCompression {
  CompressionScheme scheme = CompressionScheme::None;
  /// For PowerSGD and GradZIP, the rank of the low-rank matrices. For a count
  /// sketch, the number of elements of a matrix per element of its sketch. 0
  /// for other schemes.
  int64_t size = 0;

  /// Returns the text that parseGradientCompression() reads, such as
  /// "powersgd:4".
  std::string text() const;
  bool any() const { return scheme != CompressionScheme::None; }
  /// Returns true if the scheme has states, which are tensors that are kept
  /// from step to step, such as the error of each rank (see errorSlot).
  bool hasStates() const { return any() && scheme != CompressionScheme::Int8; }
};

/// The states of a compressed gradient. In a run that is resumed, each state
/// that the checkpoint lacks, or has with another shape, starts from its
/// initial value.
///
/// Every scheme with states has `error`: the part of the gradient that this
/// rank has not sent yet. PowerSGD has `basis`, the basis of columns from the
/// previous step. GradZIP has `basis`, `row_basis`, which is the basis of rows,
/// and `turn`, which is 0 or 1 and selects the factor that is summed. A count
/// sketch has `signs`: for each of its tables, a number per row of the matrix,
/// by whose sign the row is multiplied.
inline constexpr std::string_view errorSlot = "error", basisSlot = "basis",
                                  rowBasisSlot = "row_basis", turnSlot = "turn",
                                  signsSlot = "signs";

/// Returns true if `slot` is the name of a state of a compressed gradient.
bool isCompressionSlot(std::string_view slot);

/// The largest number of ranks that sum 8-bit codes. The sum of the codes of
/// all ranks must fit in 8 bits, so with more ranks, the codes of a rank would
/// have too few different values.
inline constexpr int64_t maxInt8Ranks = 32;

/// Parses the name of a scheme, followed by ':' and the size if the scheme has
/// a size. An empty text means no compression. Errors have the exit code Usage
/// and messages that begin with a verb.
Result<GradientCompression> parseGradientCompression(std::string_view text);

/// Returns true if `encoding` is an encoding of gradients that ranks sum, such
/// as "powersgd:4". Returns false for an encoding of residuals, which are
/// values that the forward pass saves for the backward pass.
bool isOfGradients(std::string_view encoding);

/// Returns true if `encoding` is an encoding of gradients and has states, which
/// are tensors that are kept from step to step.
bool hasCompressionStates(std::string_view encoding);

} // namespace kiln::support

#endif // KILN_SUPPORT_GRADIENTCOMPRESSION_H
