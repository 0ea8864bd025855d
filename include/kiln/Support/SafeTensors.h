//===- SafeTensors.h - Reading and writing .safetensors ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file is: header length N (8 bytes, little-endian), N bytes of JSON that map
// each tensor name to {dtype, shape, data_offsets}, then the data. A file is
// accepted only when the tensors tile the data exactly, without holes, overlap
// or bytes left over, so that nothing can hide in it and sizes can be trusted
// from then on. Nothing is allocated beyond a small multiple of the header.
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
  uint64_t begin = 0; ///< first byte, counted from the start of the data
  uint64_t end = 0;   ///< one past the last byte
  int64_t elements = 1;
};

struct SafeTensorsLimits {
  uint64_t maxHeaderBytes = 100'000'000;
  std::size_t maxTensors = 1'000'000;
  std::size_t maxRank = 8;
  std::size_t maxNameBytes = 1024;
  /// Reject unknown keys in a tensor's entry; otherwise they are a warning.
  bool strict = false;
};

struct SafeTensorsHeader {
  std::vector<TensorInfo> tensors; ///< by position in the data, then name
  std::map<std::string, std::string> metadata;
  uint64_t dataStart = 0;
  std::vector<std::string> warnings;
};

/// Validates the JSON of a header whose file has `dataBytes` bytes after it.
/// This is the parser's entry for fuzzers: it touches nothing but its input.
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
  /// Null when there is none.
  const TensorInfo *find(std::string_view name) const;

  /// Reads the whole tensor as elements of `type` into `buffer`, which has
  /// exactly `bytes` bytes = elements * size of `type`. Works through a small
  /// fixed buffer on the stack.
  Status read(std::string_view name, ElementType type, void *buffer,
              uint64_t bytes) const;

  /// Reads elements [first, first + count) of `tensor`, which is one of
  /// tensors().
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

/// Writes a file in one pass: declare all tensors, then append their bytes in
/// the order of declaration, in pieces of any size, then finish. The file
/// appears under its name only when finish() succeeds.
class SafeTensorsWriter {
public:
  /// The start of the data is aligned to 64 bytes. `metadata` gets
  /// {"format": "pt"} unless it has that key, since readers ask for it.
  static Result<SafeTensorsWriter>
  create(const std::string &path, std::vector<TensorDeclaration> tensors,
         std::map<std::string, std::string> metadata = {});

  Status write(const void *data, uint64_t bytes);
  /// Fails when bytes are missing.
  Status finish();

  uint64_t fileBytes() const { return fileBytes_; }
  /// XXH3-128 of the whole file, once finished.
  std::string hash() const { return file_.hash(); }

private:
  SafeTensorsWriter(OutputFile file, uint64_t fileBytes);
  OutputFile file_;
  uint64_t fileBytes_;
};

/// The size that a file with these tensors will have; for checks of free space.
Result<uint64_t>
safeTensorsFileBytes(const std::vector<TensorDeclaration> &tensors);

} // namespace kiln::support

#endif // KILN_SUPPORT_SAFETENSORS_H
