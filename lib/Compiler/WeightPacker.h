//===- WeightPacker.h - Writing of quantized weights ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the tensors of a model to a safetensors file in fewer bits, one part
// of a tensor after another.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_WEIGHTPACKER_H
#define KILN_LIB_COMPILER_WEIGHTPACKER_H

#include "kiln/Support/ModelWeights.h"

#include <optional>

namespace kiln {

class WeightPacker {
public:
  /// Reads from `weights`, which must outlive this object. Encodes with
  /// `threads` threads; the results do not depend on their number. Without a
  /// format, all floating-point tensors are converted to f16.
  WeightPacker(const support::ModelWeights &weights,
               std::optional<support::PackedFormat> format, int64_t threads);

  /// Adds a tensor of `weights` to the file. If `isMatrix` is true and there is
  /// a format, the tensor is stored in this format.
  void add(const support::TensorInfo &tensor, bool isMatrix);

  /// Writes the file. Fails if a weight is infinite or not a number, or if it
  /// exceeds the range of f16.
  Status write(const std::string &path) const;

  /// Return the bytes of all added tensors in `weights` and in the written
  /// file, respectively, without headers.
  uint64_t bytesBefore() const { return before_; }
  uint64_t bytesAfter() const { return after_; }
  int64_t tensors() const { return int64_t(entries_.size()); }
  /// Return the numbers of tensors and of elements that are stored in the
  /// format passed to the constructor. Without a format, all of them count as
  /// quantized.
  int64_t quantizedTensors() const { return quantizedTensors_; }
  int64_t quantizedElements() const { return quantizedElements_; }
  int64_t elements() const { return elements_; }

private:
  struct Entry {
    const support::TensorInfo *tensor;
    bool isPacked;
    /// Type of the stored elements unless the tensor is packed.
    support::ElementType type;
  };
  std::vector<support::TensorDeclaration> declare(const Entry &entry) const;
  Status writePlain(const Entry &entry,
                    support::SafeTensorsWriter &writer) const;
  Status writePacked(const Entry &entry,
                     support::SafeTensorsWriter &writer) const;
  void encode(const float *values, int64_t count, uint8_t *codes,
              float *scales) const;

  const support::ModelWeights &weights_;
  std::optional<support::PackedFormat> format_;
  int64_t threads_;
  std::vector<Entry> entries_;
  uint64_t before_ = 0, after_ = 0;
  int64_t quantizedTensors_ = 0, quantizedElements_ = 0, elements_ = 0;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_WEIGHTPACKER_H
