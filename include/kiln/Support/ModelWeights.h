//===- ModelWeights.h - One lookup over all weights -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One lookup by tensor name over a .safetensors file, a directory with
// model.safetensors, or a directory with model.safetensors.index.json and its
// shards. Names of shards come from an untrusted file: each must be a plain
// file in the same directory, and must hold exactly the tensors that the index
// says.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_MODELWEIGHTS_H
#define KILN_SUPPORT_MODELWEIGHTS_H

#include "kiln/Support/SafeTensors.h"
#include <optional>

namespace kiln::support {

/// What a model expects of one tensor.
struct ExpectedTensor {
  std::string name;
  std::vector<std::string> aliases; ///< other accepted names, tried in order
  std::vector<int64_t> shape;
  /// Names under which a file may repeat the tensor, because it is tied; one of
  /// them is read when there is no other.
  std::vector<std::string> copies = {};
};

/// model.safetensors.index.json: tensor name to shard.
struct ShardIndex {
  std::map<std::string, std::string> shardOf;
  std::optional<uint64_t> totalBytes;
};

/// Entry for fuzzers: touches nothing but its input.
Result<ShardIndex> parseShardIndex(std::string_view json,
                                   const std::string &source);

/// True if `directory` has model.safetensors or model.safetensors.index.json.
bool holdsWeights(const std::string &directory);

class ModelWeights {
public:
  static Result<ModelWeights> open(const std::string &path,
                                   const SafeTensorsLimits &limits = {});
  /// The tensors of one file.
  static Result<ModelWeights> open(InputFile file,
                                   const SafeTensorsLimits &limits = {});

  /// Null when there is none. Valid as long as this object.
  const TensorInfo *find(std::string_view name) const;
  std::size_t size() const { return places_.size(); }
  /// The names of all tensors, sorted.
  std::vector<std::string> names() const;
  const std::vector<std::string> &warnings() const { return warnings_; }
  /// The file or directory that open() was given.
  const std::string &path() const { return path_; }

  /// As SafeTensorsFile::read.
  Status read(std::string_view name, ElementType type, void *buffer,
              uint64_t bytes) const;

  /// As SafeTensorsFile::readElements.
  Status readElements(std::string_view name, int64_t first, int64_t count,
                      ElementType type, void *buffer) const;

  /// For each expected tensor the one in the file, all found and of equal
  /// shape and of a type that converts to f32; otherwise the first that is
  /// not, by name.
  Result<std::vector<const TensorInfo *>>
  match(const std::vector<ExpectedTensor> &expected) const;

private:
  ModelWeights() = default;
  Status addFile(SafeTensorsFile file);

  struct Place {
    std::size_t file;
    const TensorInfo *tensor;
  };
  std::string path_;
  std::vector<SafeTensorsFile> files_;
  std::unordered_map<std::string_view, Place> places_;
  std::vector<std::string> warnings_;
};

} // namespace kiln::support

#endif // KILN_SUPPORT_MODELWEIGHTS_H
