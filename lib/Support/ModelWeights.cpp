//===- ModelWeights.cpp - Tensor lookup over weight files -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See ModelWeights.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/ModelWeights.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Posix.h"
#include <algorithm>
#include <set>
#include <sys/stat.h>

using namespace kiln::support;

namespace {

constexpr uint64_t kMaxIndexBytes = 64u << 20;
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

bool exists(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

bool isDirectory(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

std::string singleFile(const std::string &directory) {
  return directory + "/model.safetensors";
}

std::string indexFile(const std::string &directory) {
  return directory + "/model" + std::string(kIndexSuffix);
}

std::string packedFile(const std::string &directory) {
  return directory + "/" + packedFileName;
}

} // namespace

bool kiln::support::holdsWeights(const std::string &directory) {
  return exists(singleFile(directory)) || exists(indexFile(directory)) ||
         exists(packedFile(directory));
}

Result<ShardIndex> kiln::support::parseShardIndex(std::string_view text,
                                                  const std::string &source) {
  JsonLimits limits;
  limits.maxBytes = kMaxIndexBytes;
  Result<nlohmann::json> json = parseJson(text, source, limits);
  if (!json.ok())
    return json.status();
  if (!json->is_object())
    return Status::badInput(source + ": the index is not a JSON object");
  auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object())
    return Status::badInput(source + ": has no object 'weight_map'");

  ShardIndex index;
  for (const auto &[name, shard] : map->items()) {
    if (!shard.is_string())
      return Status::badInput(source + ": the shard of tensor " +
                              inQuotes(name) +
                              " is not a string, expected the name of a file");
    const std::string &file = shard.get_ref<const std::string &>();
    if (!isPlainName(file))
      return Status::badInput(source + ": shard " + inQuotes(file) +
                              " of tensor " + inQuotes(name) +
                              " is invalid: expected the name of a file in the "
                              "directory of the index, without a path");
    index.shardOf.emplace(name, file);
  }
  auto metadata = json->find("metadata");
  if (metadata != json->end() && metadata->is_object())
    if (auto total = metadata->find("total_size");
        total != metadata->end() && total->is_number_unsigned())
      index.totalBytes = total->get<uint64_t>();
  return index;
}

Status ModelWeights::addFile(SafeTensorsFile file) {
  for (const std::string &warning : file.warnings())
    warnings_.push_back("'" + file.path() + "': " + warning);
  files_.push_back(std::move(file));
  const std::size_t index = files_.size() - 1;
  Result<std::vector<PackedTensor>> packed = findPackedTensors(files_[index]);
  if (!packed.ok())
    return packed.status();
  std::set<const TensorInfo *> parts;
  for (PackedTensor &tensor : *packed) {
    parts.insert({tensor.codes, tensor.scales});
    packed_.push_back(std::make_unique<PackedTensor>(std::move(tensor)));
    const PackedTensor *stored = packed_.back().get();
    if (Status status = addTensor({index, &stored->info, stored}); !status.ok())
      return status;
  }
  for (const TensorInfo &tensor : files_[index].tensors())
    if (!parts.count(&tensor))
      if (Status status = addTensor({index, &tensor}); !status.ok())
        return status;
  return Status();
}

Status ModelWeights::addTensor(const Place &place) {
  auto [other, isNew] = places_.try_emplace(place.tensor->name, place);
  if (isNew)
    return Status();
  return Status::badInput("tensor " + inQuotes(place.tensor->name) +
                          " is in two shards: '" +
                          files_[other->second.file].path() + "' and '" +
                          files_[place.file].path() + "'");
}

std::optional<PackedFormat> ModelWeights::packedFormat() const {
  if (packed_.empty())
    return std::nullopt;
  return packed_.front()->format;
}

Result<ModelWeights> ModelWeights::open(InputFile input,
                                        const SafeTensorsLimits &limits) {
  ModelWeights weights;
  weights.path_ = input.path();
  Result<SafeTensorsFile> file =
      SafeTensorsFile::open(std::move(input), limits);
  if (!file.ok())
    return file.status();
  if (Status status = weights.addFile(std::move(*file)); !status.ok())
    return status;
  return weights;
}

Result<ModelWeights> ModelWeights::open(const std::string &path,
                                        const SafeTensorsLimits &limits) {
  ModelWeights weights;
  weights.path_ = path;
  std::string single = path, indexPath;
  if (isDirectory(path)) {
    single = singleFile(path);
    if (!exists(single) && exists(indexFile(path)))
      indexPath = indexFile(path);
    else if (!exists(single)) {
      single = packedFile(path);
      if (!exists(single))
        return Status::badInput(
            "'" + path +
            "' has neither model.safetensors nor model.safetensors.index.json; "
            "convert its weights to safetensors");
    }
  } else if (endsWith(path, kIndexSuffix)) {
    indexPath = path;
  }

  if (indexPath.empty()) {
    Result<SafeTensorsFile> file = SafeTensorsFile::open(single, limits);
    if (!file.ok())
      return file.status();
    if (Status status = weights.addFile(std::move(*file)); !status.ok())
      return status;
    return weights;
  }

  Result<std::string> text = readSmallFile(indexPath, kMaxIndexBytes);
  if (!text.ok())
    return text.status();
  std::string source = "'" + indexPath + "'";
  Result<ShardIndex> index = parseShardIndex(*text, source);
  if (!index.ok())
    return index.status();

  std::set<std::string> shards;
  for (const auto &[name, shard] : index->shardOf)
    shards.insert(shard);
  for (const std::string &shard : shards) {
    Result<InputFile> input =
        InputFile::openSibling(parentPath(indexPath), shard);
    if (!input.ok())
      return Status::badInput(source + " names a shard that cannot be used: " +
                              input.status().message());
    Result<SafeTensorsFile> file =
        SafeTensorsFile::open(std::move(*input), limits);
    if (!file.ok())
      return file.status();
    if (Status status = weights.addFile(std::move(*file)); !status.ok())
      return status;
  }

  if (weights.packedFormat())
    return Status::badInput(
        source + " lists shards with quantized tensors, expected a single "
                 "packed.safetensors, the file that kilnc --quantize writes");
  for (const auto &[name, shard] : index->shardOf) {
    auto place = weights.places_.find(name);
    if (place == weights.places_.end())
      return Status::badInput(source + ": tensor " + inQuotes(name) +
                              " is not in its shard " + inQuotes(shard));
    std::string_view actual =
        baseName(weights.files_[place->second.file].path());
    if (actual != shard)
      return Status::badInput(source + ": tensor " + inQuotes(name) +
                              " should be in shard " + inQuotes(shard) +
                              " but is in " + inQuotes(actual));
  }
  uint64_t total = 0;
  for (const SafeTensorsFile &file : weights.files_)
    for (const TensorInfo &tensor : file.tensors()) {
      if (!index->shardOf.count(tensor.name))
        return Status::badInput("'" + file.path() + "': tensor " +
                                inQuotes(tensor.name) + " is not listed in " +
                                source);
      // `total` cannot overflow, because it is at most the sum of the file
      // sizes.
      total += tensor.end - tensor.begin;
    }
  if (index->totalBytes && *index->totalBytes != total)
    weights.warnings_.push_back(
        source + ": total_size is " + std::to_string(*index->totalBytes) +
        ", but the tensors have " + std::to_string(total) + " bytes");
  return weights;
}

const TensorInfo *ModelWeights::find(std::string_view name) const {
  auto it = places_.find(name);
  return it == places_.end() ? nullptr : it->second.tensor;
}

const std::string &ModelWeights::pathOf(const TensorInfo &tensor) const {
  return files_.size() == 1
             ? path_
             : files_[places_.find(tensor.name)->second.file].path();
}

Status ModelWeights::read(std::string_view name, ElementType type, void *buffer,
                          uint64_t bytes) const {
  auto it = places_.find(name);
  if (it == places_.end())
    return Status::badInput("'" + path_ + "' has no tensor " + inQuotes(name));
  const auto &[file, tensor, packed] = it->second;
  if (!packed)
    return files_[file].read(name, type, buffer, bytes);
  if (Status status = files_[file].checkSize(*tensor, type, bytes);
      !status.ok())
    return status;
  return readElements(name, 0, tensor->elements, type, buffer);
}

Status ModelWeights::readElements(std::string_view name, int64_t first,
                                  int64_t count, ElementType type,
                                  void *buffer) const {
  auto it = places_.find(name);
  if (it == places_.end())
    return Status::badInput("'" + path_ + "' has no tensor " + inQuotes(name));
  const auto &[file, tensor, packed] = it->second;
  if (packed)
    return readPackedElements(files_[file], *packed, first, count, type,
                              buffer);
  return files_[file].readElements(*tensor, first, count, type, buffer);
}

std::vector<std::string> ModelWeights::names() const {
  std::vector<std::string> names;
  for (const auto &[name, place] : places_)
    names.emplace_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

/// Looks up the name of `want`, its aliases and its copies in this order.
/// Returns the first tensor found, or null.
static const TensorInfo *findNamed(const ModelWeights &weights,
                                   const ExpectedTensor &want) {
  if (const TensorInfo *tensor = weights.find(want.name))
    return tensor;
  for (const std::vector<std::string> *names : {&want.aliases, &want.copies})
    for (const std::string &name : *names)
      if (const TensorInfo *tensor = weights.find(name))
        return tensor;
  return nullptr;
}

Result<std::vector<const TensorInfo *>>
ModelWeights::match(const std::vector<ExpectedTensor> &expected) const {
  std::vector<const TensorInfo *> found;
  for (const ExpectedTensor &want : expected) {
    const TensorInfo *tensor = findNamed(*this, want);
    if (!tensor)
      return Status::badInput(
          "'" + path_ + "' has no tensor " + inQuotes(want.name) +
          " of shape " + shapeText(want.shape) + ", which the model needs");
    if (tensor->shape != want.shape)
      return Status::badInput("'" + pathOf(*tensor) + "': tensor " +
                              inQuotes(tensor->name) + " has shape " +
                              shapeText(tensor->shape) +
                              ", the model expects " + shapeText(want.shape));
    if (!isConvertible(tensor->type, ElementType::F32))
      return Status::badInput("'" + pathOf(*tensor) + "': tensor " +
                              inQuotes(tensor->name) + " has dtype " +
                              std::string(infoOf(tensor->type).fileName) +
                              ", which does not convert to F32");
    found.push_back(tensor);
  }
  return found;
}
