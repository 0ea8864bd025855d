//===- SafeTensors.cpp - Safetensors reader -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See SafeTensors.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/SafeTensors.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Messages.h"
#include <algorithm>
#include <cassert>
#include <cstring>

using namespace kiln::support;

SafeTensorsFile::SafeTensorsFile(InputFile file, SafeTensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)) {
  byName_.reserve(header_.tensors.size());
  for (std::size_t i = 0; i < header_.tensors.size(); ++i)
    byName_.emplace(header_.tensors[i].name, i);
}

Result<SafeTensorsFile> SafeTensorsFile::open(const std::string &path,
                                              const SafeTensorsLimits &limits) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status();
  return open(std::move(*file), limits);
}

Result<SafeTensorsFile> SafeTensorsFile::open(InputFile file,
                                              const SafeTensorsLimits &limits) {
  std::string source = "'" + file.path() + "'";
  auto fail = [&](const std::string &message) {
    return Status::badInput(source +
                            " is not a valid safetensors file: " + message);
  };
  if (file.size() == 0)
    return fail("it is empty");
  if (file.size() < 8)
    return fail("it has only " + std::to_string(file.size()) +
                " bytes, expected 8 for the header length");
  unsigned char raw[8];
  if (Status status = file.read(0, raw, 8); !status.ok())
    return status;
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | raw[i];
  std::string length = "header length " + std::to_string(headerBytes);
  if (headerBytes < 2)
    return fail(length + " is too small, expected at least 2");
  // Signatures of a zip archive and of a pickle file.
  if (headerBytes > limits.maxHeaderBytes &&
      (std::memcmp(raw, "PK\3\4", 4) == 0 ||
       std::memcmp(raw, "\x80\2", 2) == 0))
    return Status::badInput(
        source + " was written by torch.save, expected a safetensors file: "
                 "convert it, for example with safetensors.torch.save_file");
  if (headerBytes > limits.maxHeaderBytes)
    return fail(length + " is above the limit of " +
                std::to_string(limits.maxHeaderBytes));
  if (headerBytes > file.size() - 8)
    return fail(length + " does not fit into the file, which has " +
                std::to_string(file.size()) + " bytes");

  std::string json(headerBytes, '\0');
  if (Status status = file.read(8, json.data(), headerBytes); !status.ok())
    return status;
  Result<SafeTensorsHeader> header = parseSafeTensorsHeader(
      json, file.size() - 8 - headerBytes, source, limits);
  if (!header.ok())
    return header.status();
  header->dataStart = 8 + headerBytes;
  return SafeTensorsFile(std::move(file), std::move(*header));
}

const TensorInfo *SafeTensorsFile::find(std::string_view name) const {
  auto it = byName_.find(name);
  return it == byName_.end() ? nullptr : &header_.tensors[it->second];
}

Status SafeTensorsFile::read(std::string_view name, ElementType type,
                             void *buffer, uint64_t bytes) const {
  const TensorInfo *tensor = find(name);
  if (!tensor)
    return Status::badInput("'" + path() + "' has no tensor " + inQuotes(name));
  if (Status status = checkSize(*tensor, type, bytes); !status.ok())
    return status;
  return readElements(*tensor, 0, tensor->elements, type, buffer);
}

Status SafeTensorsFile::checkSize(const TensorInfo &tensor, ElementType type,
                                  uint64_t bytes) const {
  std::optional<uint64_t> expected =
      checkedMul<uint64_t>(tensor.elements, bytesOf(type));
  if (expected && *expected == bytes)
    return Status();
  return Status::badInput("'" + path() + "': tensor " + inQuotes(tensor.name) +
                          " has shape " + shapeText(tensor.shape) +
                          ", expected a shape that takes " +
                          std::to_string(bytes) + " bytes with the type " +
                          std::string(infoOf(type).fileName));
}

Status SafeTensorsFile::readElements(const TensorInfo &tensor, int64_t first,
                                     int64_t count, ElementType type,
                                     void *buffer) const {
  assert(first >= 0 && count >= 0 && first <= tensor.elements - count);
  if (!isConvertible(tensor.type, type))
    return Status::badInput(
        "'" + path() + "': tensor " + inQuotes(tensor.name) + " has dtype " +
        std::string(infoOf(tensor.type).fileName) +
        ", which cannot be converted to " + std::string(infoOf(type).fileName) +
        "; convert the file first");
  uint64_t storedBytes = bytesOf(tensor.type);
  uint64_t offset = header_.dataStart + tensor.begin + first * storedBytes;
  if (type == tensor.type)
    return file_.read(offset, buffer, count * storedBytes);

  alignas(16) unsigned char chunk[32 << 10];
  auto *out = static_cast<unsigned char *>(buffer);
  while (count > 0) {
    int64_t now = std::min<int64_t>(count, sizeof chunk / storedBytes);
    if (Status status = file_.read(offset, chunk, now * storedBytes);
        !status.ok())
      return status;
    convertElements(tensor.type, chunk, type, out, now);
    out += bytesOf(type, now);
    offset += now * storedBytes;
    count -= now;
  }
  return Status();
}
