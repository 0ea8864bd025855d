//===- PackedTensors.h - Quantized tensors of a file ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file that kilnc --quantize wrote stores a quantized matrix NAME
// as the tensors NAME.codes and NAME.scales, whose types and shapes follow from
// the format (PackedFormat.h) and the shape of the matrix. The entry
// `kiln.packed` of the metadata of the file has the format and the shapes:
//
//   {"version": 1, "format": "int8", "tensors": {"NAME": [768, 2304], ...}}
//
// Files are untrusted. Everything that follows from the header is checked when
// the file is opened, and scales are checked when they are read.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_PACKEDTENSORS_H
#define KILN_SUPPORT_PACKEDTENSORS_H

#include "kiln/Support/PackedFormat.h"
#include "kiln/Support/SafeTensors.h"

namespace kiln::support {

/// Name of a file with quantized tensors in a model directory. It differs from
/// the name of an ordinary weight file, because other libraries would otherwise
/// load the file and ignore that tensors are missing.
inline constexpr const char *packedFileName = "packed.safetensors";

/// Key of the metadata of a file with quantized tensors.
inline constexpr const char *packedMetadataKey = "kiln.packed";

/// A matrix that is stored as codes and scales.
struct PackedTensor {
  /// Name and shape of the matrix, and the type F32 of its decoded elements.
  /// The range of bytes in the file, [begin, end), is empty: both are 0.
  TensorInfo info;
  PackedFormat format;
  const TensorInfo *codes;
  const TensorInfo *scales;
};

/// Returns the declarations of the tensors in which `format` stores the matrix
/// `name`.
std::vector<TensorDeclaration> packedParts(const PackedFormat &format,
                                           const std::string &name,
                                           const std::vector<int64_t> &shape);

/// Returns the text of the metadata entry `kiln.packed` for a file with the
/// quantized matrices `matrices`.
std::string packedMetadata(const PackedFormat &format,
                           const std::vector<TensorDeclaration> &matrices);

/// Returns the quantized matrices of a file; none if the metadata has no entry
/// `kiln.packed`. The result refers to tensors of `file`.
Result<std::vector<PackedTensor>>
findPackedTensors(const SafeTensorsFile &file);

/// Reads the elements [first, first + count) as elements of `type`. Decodes
/// through small buffers. Fails if a scale is negative, infinite or not a
/// number.
Status readPackedElements(const SafeTensorsFile &file,
                          const PackedTensor &tensor, int64_t first,
                          int64_t count, ElementType type, void *buffer);

} // namespace kiln::support

#endif // KILN_SUPPORT_PACKEDTENSORS_H
