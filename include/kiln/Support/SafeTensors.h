//===- SafeTensors.h - Safetensors reader and writer ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file contains the header length N (8 bytes, little-endian), N
// bytes of JSON that map each tensor name to {dtype, shape, data_offsets}, and
// the data. A file is accepted only if the tensors cover the data exactly,
// without gaps, overlaps or trailing bytes. Therefore a file cannot contain
// hidden data. Memory use is limited to a small multiple of the header size.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_SAFETENSORS_H
#define KILN_SUPPORT_SAFETENSORS_H

#include "kiln/Support/ElementType.h"
#include "kiln/Support/InputFile.h"
#include "kiln/Support/OutputFile.h"
#include "kiln/Support/Status.h"
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kiln::support {

struct TensorInfo {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  uint64_t begin = 0; ///< First byte, relative to the start of the data.
  uint64_t end = 0;   ///< One past the last byte.
  int64_t elements = 1;
};

struct SafeTensorsLimits {
  uint64_t maxHeaderBytes = 100'000'000;
  std::size_t maxTensors = 1'000'000;
  std::size_t maxRank = 8;
  std::size_t maxNameBytes = 1024;
  /// True if unknown keys in the entry of a tensor are errors instead of
  /// warnings.
  bool strict = false;
};

struct SafeTensorsHeader {
  /// Sorted by position in the data, then by name.
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  uint64_t dataStart = 0;
  std::vector<std::string> warnings;
};

/// Validates the JSON header of a file with `dataBytes` bytes of data. Entry
/// point of fuzzers: accesses only its arguments.
Result<SafeTensorsHeader>
parseSafeTensorsHeader(std::string_view json, uint64_t dataBytes,
                       const std::string &source,
                       const SafeTensorsLimits &limits = {});

class SafeTensorsFile {
public:
  static Result<SafeTensorsFile> open(const std::string &path,
                                      const SafeTensorsLimits &limits = {});
  static Result<SafeTensorsFile> open(InputFile file,
                                      const SafeTensorsLimits &limits = {});

  const std::string &path() const { return file_.path(); }
  const std::vector<TensorInfo> &tensors() const { return header_.tensors; }
  const std::map<std::string, std::string> &metadata() const {
    return header_.metadata;
  }
  const std::vector<std::string> &warnings() const { return header_.warnings; }
  /// Returns the tensor with this name, or null if there is none.
  const TensorInfo *find(std::string_view name) const;

  /// Reads the whole tensor as elements of `type` into `buffer`, where `bytes`
  /// = elements * size of `type`. Converts through a small fixed-size buffer on
  /// the stack.
  Status read(std::string_view name, ElementType type, void *buffer,
              uint64_t bytes) const;

  /// Fails unless `bytes` is the size of a tensor with the shape of `tensor`
  /// and elements of `type`.
  Status checkSize(const TensorInfo &tensor, ElementType type,
                   uint64_t bytes) const;

  /// Reads the elements [first, first + count) of `tensor`, which must be in
  /// the list tensors().
  Status readElements(const TensorInfo &tensor, int64_t first, int64_t count,
                      ElementType type, void *buffer) const;

private:
  SafeTensorsFile(InputFile file, SafeTensorsHeader header);
  InputFile file_;
  SafeTensorsHeader header_;
  std::unordered_map<std::string_view, std::size_t> byName_;
};

struct TensorDeclaration {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
};

/// Writes a file in one pass: declare all tensors, append their bytes in the
/// order of declaration in pieces of any size, and call finish(). The file
/// appears under its name only when finish() succeeds.
class SafeTensorsWriter {
public:
  /// Creates a file whose data starts at a multiple of 64 bytes. Adds the entry
  /// {"format": "pt"}, which readers expect, unless `metadata` has the key
  /// "format".
  static Result<SafeTensorsWriter>
  create(const std::string &path, std::vector<TensorDeclaration> tensors,
         std::map<std::string, std::string> metadata = {});

  Status write(const void *data, uint64_t bytes);
  /// Completes the file. Fails if fewer bytes were written than declared.
  Status finish();

  uint64_t fileBytes() const { return fileBytes_; }
  /// Returns XXH3-128 of the whole file after finish().
  std::string hash() const { return file_.hash(); }

private:
  SafeTensorsWriter(OutputFile file, uint64_t fileBytes);
  OutputFile file_;
  uint64_t fileBytes_;
};

/// Returns the size of a file with these tensors, for checks of free space.
Result<uint64_t>
safeTensorsFileBytes(const std::vector<TensorDeclaration> &tensors);

} // namespace kiln::support

#endif // KILN_SUPPORT_SAFETENSORS_H
