//===- ModelWeights.h - Tensor lookup over weight files ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks up tensors by name in a .safetensors file, or in a directory that has
// model.safetensors, model.safetensors.index.json and its shards, or
// packed.safetensors, in this order of precedence. The index is untrusted: each
// shard is opened with InputFile::openSibling, and the shards must contain
// exactly the tensors that the index lists.
//
// A tensor that kilnc --quantize stored as codes and scales (PackedTensors.h)
// is found under its own name, has type F32, and is decoded while it is read.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_MODELWEIGHTS_H
#define KILN_SUPPORT_MODELWEIGHTS_H

#include "kiln/Support/PackedTensors.h"
#include "kiln/Support/SafeTensors.h"
#include <memory>
#include <optional>

namespace kiln::support {

/// A tensor that the model requires.
struct ExpectedTensor {
  std::string name;
  std::vector<std::string> aliases; ///< Other accepted names, tried in order.
  std::vector<int64_t> shape;
  /// Names of tensors that are tied to this one. A file may repeat this tensor
  /// under these names. These names are tried if the file contains neither
  /// `name` nor an alias.
  std::vector<std::string> copies = {};
};

/// Contents of model.safetensors.index.json: the shard of each tensor.
struct ShardIndex {
  std::map<std::string, std::string> shardOf;
  std::optional<uint64_t> totalBytes;
};

/// Parses the text of an index. Entry point of fuzzers: accesses only its
/// arguments.
Result<ShardIndex> parseShardIndex(std::string_view json,
                                   const std::string &source);

/// Returns true if `directory` contains model.safetensors,
/// model.safetensors.index.json or packed.safetensors.
bool holdsWeights(const std::string &directory);

class ModelWeights {
public:
  static Result<ModelWeights> open(const std::string &path,
                                   const SafeTensorsLimits &limits = {});
  /// Opens the tensors of a single file.
  static Result<ModelWeights> open(InputFile file,
                                   const SafeTensorsLimits &limits = {});

  /// Returns the tensor, or null if there is none. The pointer is valid for the
  /// lifetime of this object.
  const TensorInfo *find(std::string_view name) const;
  std::size_t size() const { return places_.size(); }
  /// Returns the names of all tensors, sorted.
  std::vector<std::string> names() const;
  const std::vector<std::string> &warnings() const { return warnings_; }
  /// Returns the format of the quantized tensors, if there are any.
  std::optional<PackedFormat> packedFormat() const;
  /// Returns the file or directory that was passed to open().
  const std::string &path() const { return path_; }
  /// Returns the path to name in an error about a tensor, which must exist: its
  /// shard, or path() if there is only one file.
  const std::string &pathOf(const TensorInfo &tensor) const;

  /// Reads a whole tensor; see SafeTensorsFile::read.
  Status read(std::string_view name, ElementType type, void *buffer,
              uint64_t bytes) const;

  /// Reads a range of elements; see SafeTensorsFile::readElements.
  Status readElements(std::string_view name, int64_t first, int64_t count,
                      ElementType type, void *buffer) const;

  /// Returns the tensor in the file for each expected tensor. Fails with the
  /// name of the first tensor that is missing, has a different shape, or has a
  /// type that does not convert to f32.
  Result<std::vector<const TensorInfo *>>
  match(const std::vector<ExpectedTensor> &expected) const;

private:
  ModelWeights() = default;
  struct Place {
    std::size_t file;
    const TensorInfo *tensor;
    /// The stored form of `tensor` if it is quantized, otherwise null.
    const PackedTensor *packed = nullptr;
  };
  Status addFile(SafeTensorsFile file);
  Status addTensor(const Place &place);

  std::string path_;
  std::vector<SafeTensorsFile> files_;
  std::vector<std::unique_ptr<PackedTensor>> packed_;
  std::unordered_map<std::string_view, Place> places_;
  std::vector<std::string> warnings_;
};

} // namespace kiln::support

#endif // KILN_SUPPORT_MODELWEIGHTS_H
