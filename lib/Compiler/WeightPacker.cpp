//===- WeightPacker.cpp - Writing of quantized weights --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightPacker.h"

#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Process.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

using namespace kiln::support;
using namespace kiln;

/// Number of elements that are read at once; a multiple of the block size of
/// every format.
static constexpr int64_t chunkElements = 1 << 20;
/// Number of elements that a thread encodes at once; a divisor of
/// chunkElements.
static constexpr int64_t partElements = 1 << 13;

WeightPacker::WeightPacker(const ModelWeights &weights,
                           std::optional<PackedFormat> format, int64_t threads)
    : weights_(weights), format_(format), threads_(threads) {}

void WeightPacker::add(const TensorInfo &tensor, bool isMatrix) {
  Entry entry{&tensor, format_ && isMatrix, tensor.type};
  if (!format_ && isFloat(tensor.type))
    entry.type = ElementType::F16;
  before_ += uint64_t(bytesOf(tensor.type, tensor.elements));
  after_ += entry.isPacked ? uint64_t(format_->bytes(tensor.elements))
                           : uint64_t(bytesOf(entry.type, tensor.elements));
  elements_ += tensor.elements;
  if (entry.isPacked || !format_) {
    ++quantizedTensors_;
    quantizedElements_ += tensor.elements;
  }
  entries_.push_back(entry);
}

std::vector<TensorDeclaration> WeightPacker::declare(const Entry &entry) const {
  if (entry.isPacked)
    return packedParts(*format_, entry.tensor->name, entry.tensor->shape);
  return {{entry.tensor->name, entry.type, entry.tensor->shape}};
}

Status WeightPacker::write(const std::string &path) const {
  std::vector<TensorDeclaration> tensors, matrices;
  for (const Entry &entry : entries_) {
    for (TensorDeclaration &tensor : declare(entry))
      tensors.push_back(std::move(tensor));
    if (entry.isPacked)
      matrices.push_back(
          {entry.tensor->name, ElementType::F32, entry.tensor->shape});
  }
  std::map<std::string, std::string> metadata;
  if (format_)
    metadata[packedMetadataKey] = packedMetadata(*format_, matrices);
  Result<SafeTensorsWriter> writer =
      SafeTensorsWriter::create(path, std::move(tensors), std::move(metadata));
  if (!writer.ok())
    return writer.status();
  for (const Entry &entry : entries_) {
    Status status = entry.isPacked ? writePacked(entry, *writer)
                                   : writePlain(entry, *writer);
    if (!status.ok())
      return status;
  }
  return writer->finish();
}

/// Returns the error for element `index` of a tensor.
static Status refuseElement(const ModelWeights &weights,
                            const TensorInfo &tensor, int64_t index,
                            const std::string &problem) {
  return Status::badInput("'" + weights.pathOf(tensor) + "': element " +
                          std::to_string(index) + " (row-major) of tensor " +
                          inQuotes(tensor.name) + " " + problem);
}

template <typename T>
static Status checkFinite(const ModelWeights &weights, const TensorInfo &tensor,
                          int64_t first, const std::vector<T> &values,
                          int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(values[size_t(i)]))
      return refuseElement(weights, tensor, first + i,
                           "is infinite or not a number: repair the weight "
                           "file");
  return Status();
}

Status WeightPacker::writePlain(const Entry &entry,
                                SafeTensorsWriter &writer) const {
  const TensorInfo &tensor = *entry.tensor;
  const int64_t most = std::min(tensor.elements, chunkElements);
  std::vector<char> stored(
      size_t(std::max(bytesOf(tensor.type, most), bytesOf(entry.type, most))));
  // Every floating-point element is represented exactly in f64.
  std::vector<double> wide(size_t(isFloat(tensor.type) ? most : 0));
  for (int64_t first = 0; first < tensor.elements; first += chunkElements) {
    int64_t count = std::min(chunkElements, tensor.elements - first);
    Status status = checkStop();
    if (status.ok())
      status = weights_.readElements(tensor.name, first, count, tensor.type,
                                     stored.data());
    if (status.ok() && isFloat(tensor.type)) {
      convertElements(tensor.type, stored.data(), ElementType::F64, wide.data(),
                      size_t(count));
      status = checkFinite(weights_, tensor, first, wide, count);
    }
    if (!status.ok())
      return status;
    if (entry.type != tensor.type) {
      for (int64_t i = 0; i < count; ++i)
        if (!std::isfinite(halfToFloat(doubleToHalf(wide[size_t(i)]))))
          return refuseElement(weights_, tensor, first + i,
                               "is " + std::to_string(wide[size_t(i)]) +
                                   ", beyond the largest number of f16, "
                                   "65504: use --quantize=int8");
      convertElements(ElementType::F64, wide.data(), entry.type, stored.data(),
                      size_t(count));
    }
    status = writer.write(stored.data(), uint64_t(bytesOf(entry.type, count)));
    if (!status.ok())
      return status;
  }
  return Status();
}

Status WeightPacker::writePacked(const Entry &entry,
                                 SafeTensorsWriter &writer) const {
  const TensorInfo &tensor = *entry.tensor;
  const int64_t most = std::min(tensor.elements, chunkElements);
  std::vector<float> values(size_t(most), 0.f);
  std::vector<uint8_t> codes(size_t(format_->codeBytes(most)));
  // The scales follow all codes in the file, so collect them until all codes
  // are written.
  std::vector<float> scales(
      size_t(format_->blocks(tensor.elements) * format_->scalesPerBlock()));
  for (int64_t first = 0; first < tensor.elements; first += chunkElements) {
    int64_t count = std::min(chunkElements, tensor.elements - first);
    Status status = checkStop();
    if (status.ok())
      status = weights_.readElements(tensor.name, first, count,
                                     ElementType::F32, values.data());
    if (status.ok())
      status = checkFinite(weights_, tensor, first, values, count);
    if (!status.ok())
      return status;
    encode(values.data(), count, codes.data(),
           scales.data() + format_->blocks(first) * format_->scalesPerBlock());
    status = writer.write(codes.data(), uint64_t(format_->codeBytes(count)));
    if (!status.ok())
      return status;
  }
  return writer.write(scales.data(), scales.size() * sizeof(float));
}

void WeightPacker::encode(const float *values, int64_t count, uint8_t *codes,
                          float *scales) const {
  std::atomic<int64_t> next = 0;
  auto work = [&] {
    for (int64_t first; (first = next.fetch_add(partElements)) < count;)
      format_->encode(values + first, std::min(partElements, count - first),
                      codes + first * format_->bits() / 8,
                      scales +
                          format_->blocks(first) * format_->scalesPerBlock());
  };
  int64_t parts = (count + partElements - 1) / partElements;
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min(threads_, parts); ++i)
    others.emplace_back(work);
  work();
  for (std::thread &thread : others)
    thread.join();
}
