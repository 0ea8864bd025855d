//===- Int8.h - Weights of eight bits with outlier inputs -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stores the weight matrix of a layer with eight bits per element, after
// LLM.int8() (arXiv 2208.07339). A fixed number of the layer's input features,
// here called inputs, are outliers. Each input has a column or a row of the
// matrix; if the input is an outlier, the elements of this column or row are
// stored with 16 bits. Blocks of consecutive elements of the row-major matrix
// have an f32 scale each:
//
//   value(i) = element i in bf16          if its input is an outlier
//              scale(i / block) * code(i) otherwise, see UniformCode.h
//
// The scale of a block does not depend on outliers. A few large inputs would
// otherwise make the scales so large that the codes of all other elements had
// only a few different values.
//
// LLM.int8() chooses the outliers in each matmul, by the magnitudes of
// activations. A compiled program encodes a weight only once, so the encoder
// chooses the inputs whose elements in the *weight* have the largest maximum
// magnitude. If maxima are equal, it prefers inputs with lower indexes.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_INT8_H
#define KILN_SUPPORT_INT8_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::support {

/// The parameters of an Int8Layout, in addition to the shape of the matrix.
struct Int8Options {
  /// Elements that share a scale. The last block may be shorter.
  int64_t block = 64;
  /// Number of input features of the layer whose weights are stored in bf16.
  int64_t outliers = 0;
  /// The dimension of the input features: 0 if each row of the matrix belongs
  /// to one, and 1 if each column does. Must be 0 if there are no outliers.
  int64_t inputs = 0;
};

/// The layout of the bytes of a matrix. The parts follow each other in this
/// order, and every part starts at a multiple of 4 bytes; padding is zero.
///
/// - codes: a byte per element; -128 for an element of an outlier
/// - scales: a float per block
/// - outlier indexes: an int32 per outlier, in ascending order
/// - outlier values: the elements of all outliers in bf16, in the order in
///   which they are in the row-major matrix
///
/// A matrix of n elements with k outliers and m elements per input takes
///
///   align4(n) + 4 ceil(n / block) + 4 k + align4(2 k m) bytes.
struct Int8Layout {
  static constexpr int64_t blockElements = 64;
  static constexpr int8_t outlierCode = -128;

  /// Requires that problem() returns "".
  Int8Layout(int64_t rows, int64_t columns, const Int8Options &options);

  /// Returns what is wrong with the options for a matrix of rows x columns, or
  /// "" if they are valid. The text follows the subject of a sentence, as in
  /// "has 5 outliers, expected 0 to 4". Requires that rows * columns < 2^57.
  static std::string problem(int64_t rows, int64_t columns,
                             const Int8Options &options);

  int64_t rows, columns;
  int64_t block, outliers, inputs; ///< As in Int8Options.
  int64_t elements;
  int64_t blocks;
  /// Positions of the parts in bytes. The codes are at position 0.
  int64_t scalesAt;
  int64_t outlierIndexesAt;
  int64_t outlierValuesAt;
  /// Size of all parts in bytes.
  int64_t bytes;

  int64_t inputCount() const { return inputs == 0 ? rows : columns; }
  /// Returns the index of the input feature to which an element belongs.
  int64_t inputOf(int64_t element) const {
    return inputs == 0 ? element / columns : element % columns;
  }
  /// Returns the index, among the outlier values, of an element that belongs to
  /// the outlier with index `slot`.
  int64_t outlierValueOf(int64_t element, int64_t slot) const {
    return inputs == 0 ? slot * columns + element % columns
                       : element / columns * outliers + slot;
  }
};

/// Encodes a matrix whose elements arrive in order, in chunks. With outliers,
/// all elements are passed to survey(), which chooses the outliers, before they
/// are passed to append().
///
/// The calling thread must round to nearest and not flush denormals.
class Int8Encoder {
public:
  /// Writes to `bytes`, which must hold layout.bytes bytes and outlive the
  /// encoder. `bytes` may be unaligned.
  Int8Encoder(const Int8Layout &layout, char *bytes);

  /// Considers the next `count` elements in the choice of outliers.
  void survey(const float *values, int64_t count);

  /// Encodes the next `count` elements, which are whole blocks unless the
  /// matrix ends. A value that bf16 would round to infinity becomes the largest
  /// finite bf16 value.
  void append(const float *values, int64_t count);

  /// Writes everything that append() has not written. Requires that all
  /// elements were appended. Returns false if an element was infinite or not a
  /// number. The bytes are then unspecified.
  [[nodiscard]] bool finish();

  /// Returns the index of the first element appended so far that is infinite or
  /// not a number.
  std::optional<int64_t> firstNonFinite() const { return firstNonFinite_; }

private:
  void chooseOutliers();
  void encodeBlock(int64_t first, int64_t count);

  Int8Layout layout_;
  char *bytes_;
  int64_t surveyed_ = 0, appended_ = 0;
  /// For each input feature, the largest magnitude of its weights; empty
  /// without outliers.
  std::vector<float> magnitudes_;
  /// For each input feature, its index among the outliers, or -1 if it is not
  /// an outlier.
  std::vector<int32_t> slots_;
  std::vector<float> values_; ///< The elements of the current block.
  std::optional<int64_t> firstNonFinite_;
};

/// Decodes the elements [first, first + count) of the matrix in `bytes` to
/// `to`, with products rounded to f32. Requires that the range is inside the
/// matrix and that an Int8Encoder wrote the bytes. `bytes` may be unaligned.
void decodeInt8(const char *bytes, const Int8Layout &layout, int64_t first,
                int64_t count, float *to);

} // namespace kiln::support

#endif // KILN_SUPPORT_INT8_H
