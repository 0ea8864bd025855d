//===- PackedTensors.cpp - Quantized tensors of a file --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/PackedTensors.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

using namespace kiln::support;

static constexpr int64_t version = 1;

std::vector<TensorDeclaration>
kiln::support::packedParts(const PackedFormat &format, const std::string &name,
                           const std::vector<int64_t> &shape) {
  return {{name + ".codes", format.codeType(), format.codeShape(shape)},
          {name + ".scales", ElementType::F32, format.scaleShape(shape)}};
}

std::string
kiln::support::packedMetadata(const PackedFormat &format,
                              const std::vector<TensorDeclaration> &matrices) {
  nlohmann::json tensors = nlohmann::json::object();
  for (const TensorDeclaration &matrix : matrices)
    tensors[matrix.name] = matrix.shape;
  nlohmann::json metadata = {{"version", version},
                             {"format", format.name()},
                             {"tensors", std::move(tensors)}};
  return metadata.dump(-1, ' ', /*ensure_ascii=*/false,
                       nlohmann::json::error_handler_t::replace);
}

/// Returns the shape of a matrix in the metadata, or nothing if it is invalid.
static std::optional<std::vector<int64_t>>
readShape(const nlohmann::json &value) {
  if (!value.is_array() || value.empty() ||
      value.size() > SafeTensorsLimits().maxRank)
    return std::nullopt;
  std::vector<int64_t> shape;
  for (const nlohmann::json &dimension : value) {
    if (!dimension.is_number_unsigned() ||
        dimension.get<uint64_t>() > uint64_t(INT64_MAX))
      return std::nullopt;
    shape.push_back(dimension.get<int64_t>());
  }
  // The total number of bits of the codes must also fit into an int64_t.
  std::optional<int64_t> elements = checkedElements(shape);
  if (!elements || *elements == 0 || *elements > INT64_MAX / 16)
    return std::nullopt;
  return shape;
}

Result<std::vector<PackedTensor>>
kiln::support::findPackedTensors(const SafeTensorsFile &file) {
  auto entry = file.metadata().find(packedMetadataKey);
  if (entry == file.metadata().end())
    return std::vector<PackedTensor>();
  auto fail = [&](const std::string &problem) {
    return Status::badInput("'" + file.path() + "': " + problem +
                            "; write the file again with kilnc --quantize");
  };
  std::string key = inQuotes(packedMetadataKey);
  Result<nlohmann::json> json =
      parseJson(entry->second, "'" + file.path() + "': metadata " + key);
  if (!json.ok())
    return json.status();
  if (!json->is_object())
    return fail("metadata " + key + " is not a JSON object");
  auto found = json->find("version");
  if (found == json->end() || *found != version)
    return fail("metadata " + key + " is not of version " +
                std::to_string(version) +
                ", the only one that this kiln reads");
  found = json->find("format");
  bool isText = found != json->end() && found->is_string();
  std::string name = isText ? found->get<std::string>() : "";
  std::optional<PackedFormat> format = PackedFormat::named(name);
  if (!format)
    return fail("metadata " + key + " has the unknown format " +
                inQuotes(name) + ", expected " + PackedFormat::allNames());
  auto tensors = json->find("tensors");
  if (tensors == json->end() || !tensors->is_object())
    return fail("metadata " + key + " has no object 'tensors'");

  std::vector<PackedTensor> packed;
  for (const auto &[name, value] : tensors->items()) {
    std::optional<std::vector<int64_t>> shape = readShape(value);
    if (!shape)
      return fail("metadata " + key + ": shape of tensor " + inQuotes(name) +
                  " is invalid, expected an array of positive integers");
    if (file.find(name))
      return fail(
          "tensor " + inQuotes(name) +
          " is stored both unquantized and quantized, expected only one");
    PackedTensor tensor{{}, *format, nullptr, nullptr};
    tensor.info.name = name;
    tensor.info.shape = *shape;
    tensor.info.elements = *checkedElements(*shape);
    for (const TensorDeclaration &part : packedParts(*format, name, *shape)) {
      const TensorInfo *stored = file.find(part.name);
      std::string expected = std::string(infoOf(part.type).fileName) + " " +
                             shapeText(part.shape) + " for a matrix of shape " +
                             shapeText(*shape) + " in " + format->name();
      if (!stored)
        return fail("tensor " + inQuotes(part.name) + " is missing, expected " +
                    expected);
      if (stored->type != part.type || stored->shape != part.shape)
        return fail("tensor " + inQuotes(part.name) + " is " +
                    std::string(infoOf(stored->type).fileName) + " " +
                    shapeText(stored->shape) + ", expected " + expected);
      (tensor.codes ? tensor.scales : tensor.codes) = stored;
    }
    packed.push_back(std::move(tensor));
  }
  return packed;
}

/// Reads the scales of the blocks [first, first + count) and checks them.
static Status readScales(const SafeTensorsFile &file,
                         const PackedTensor &tensor, int64_t first,
                         int64_t count, float *scales) {
  const int64_t each = tensor.format.scalesPerBlock();
  Status status = file.readElements(*tensor.scales, first * each, count * each,
                                    ElementType::F32, scales);
  if (!status.ok())
    return status;
  for (int64_t i = 0; i < count * each; ++i)
    if (!std::isfinite(scales[i]) || scales[i] < 0)
      return Status::badInput(
          "'" + file.path() + "': scale " + std::to_string(first * each + i) +
          " in tensor " + inQuotes(tensor.scales->name) + " is " +
          std::to_string(scales[i]) +
          ", expected a finite number of at least 0; write the file again with "
          "kilnc --quantize");
  return Status();
}

Status kiln::support::readPackedElements(const SafeTensorsFile &file,
                                         const PackedTensor &tensor,
                                         int64_t first, int64_t count,
                                         ElementType type, void *buffer) {
  assert(first >= 0 && count >= 0 && first <= tensor.info.elements - count);
  if (!isConvertible(ElementType::F32, type))
    return Status::badInput("'" + file.path() + "': tensor " +
                            inQuotes(tensor.info.name) +
                            " is quantized and cannot be converted to " +
                            std::string(infoOf(type).fileName));
  constexpr int64_t blocksAtOnce = 64, mostElements = 128;
  const PackedFormat &format = tensor.format;
  const int64_t block = format.blockElements();
  assert(block <= mostElements && format.scalesPerBlock() <= 2);
  std::array<uint8_t, blocksAtOnce * mostElements> codes;
  std::array<float, blocksAtOnce * 2> scales;
  std::array<float, blocksAtOnce * mostElements> values;
  auto *out = static_cast<char *>(buffer);
  const int64_t end = first + count;
  while (first < end) {
    int64_t firstBlock = first / block;
    int64_t blocks = std::min(blocksAtOnce, format.blocks(end) - firstBlock);
    int64_t start = firstBlock * block;
    int64_t decoded = std::min(blocks * block, tensor.info.elements - start);
    Status status = file.readElements(*tensor.codes, start * format.bits() / 8,
                                      format.codeBytes(decoded),
                                      format.codeType(), codes.data());
    if (status.ok())
      status = readScales(file, tensor, firstBlock, blocks, scales.data());
    if (!status.ok())
      return status;
    format.decode(codes.data(), scales.data(), decoded, values.data());
    int64_t now = std::min(end, start + decoded) - first;
    convertElements(ElementType::F32, values.data() + (first - start), type,
                    out, std::size_t(now));
    out += bytesOf(type, now);
    first += now;
  }
  return Status();
}
