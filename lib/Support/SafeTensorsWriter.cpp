//===- SafeTensorsWriter.cpp - Safetensors writer -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The writer computes the complete header first and validates it with the
// reader's parser, so the reader accepts every file that the writer creates.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/SafeTensors.h"
#include <set>

using namespace kiln::support;

namespace {

constexpr uint64_t kDataAlignment = 64;

struct Layout {
  /// The padded JSON text, preceded by its length in 8 bytes.
  std::string header;
  uint64_t fileBytes = 0;
};

Result<Layout> layOut(const std::vector<TensorDeclaration> &tensors,
                      std::map<std::string, std::string> metadata,
                      const std::string &source) {
  metadata.try_emplace("format", "pt");
  std::string json = "{\"__metadata__\":{";
  const char *comma = "";
  for (const auto &[key, value] : metadata) {
    json += comma + jsonQuoted(key) + ":" + jsonQuoted(value);
    comma = ",";
  }
  json += "}";

  uint64_t position = 0;
  for (const TensorDeclaration &tensor : tensors) {
    std::optional<int64_t> elements = checkedElements(tensor.shape);
    std::optional<uint64_t> bits, end;
    if (elements)
      bits = checkedMul<uint64_t>(*elements, bitsOf(tensor.type));
    if (bits)
      end = checkedAdd<uint64_t>(position, *bits / 8);
    if (!end)
      return Status::error(source + ": tensor " + inQuotes(tensor.name) +
                           ": size of shape " + shapeText(tensor.shape) +
                           " overflows");
    json += "," + jsonQuoted(tensor.name) + ":{\"dtype\":\"" +
            std::string(infoOf(tensor.type).fileName) + "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i)
      json += (i ? "," : "") + std::to_string(tensor.shape[i]);
    json += "],\"data_offsets\":[" + std::to_string(position) + "," +
            std::to_string(*end) + "]}";
    position = *end;
  }
  json += "}";
  json.resize(*checkedAlignUp<uint64_t>(8 + json.size(), kDataAlignment) - 8,
              ' ');

  Result<SafeTensorsHeader> readBack =
      parseSafeTensorsHeader(json, position, source);
  if (!readBack.ok())
    return Status::error(readBack.status().message());
  // jsonQuoted() replaces bytes of a name that are not valid UTF-8. The name in
  // `readBack` then differs from all declared names.
  std::set<std::string_view> names;
  for (const TensorDeclaration &tensor : tensors)
    names.insert(tensor.name);
  for (const TensorInfo &tensor : readBack->tensors)
    if (!names.count(tensor.name))
      return Status::error(source + ": tensor name " + inQuotes(tensor.name) +
                           " is not valid UTF-8");

  Layout layout;
  for (int i = 0; i < 8; ++i)
    layout.header += char(uint64_t(json.size()) >> (8 * i));
  layout.header += json;
  std::optional<uint64_t> fileBytes =
      checkedAdd<uint64_t>(layout.header.size(), position);
  if (!fileBytes)
    return Status::error(source + ": size of all tensors overflows");
  layout.fileBytes = *fileBytes;
  return layout;
}

} // namespace

SafeTensorsWriter::SafeTensorsWriter(OutputFile file, uint64_t fileBytes)
    : file_(std::move(file)), fileBytes_(fileBytes) {}

Result<SafeTensorsWriter>
SafeTensorsWriter::create(const std::string &path,
                          std::vector<TensorDeclaration> tensors,
                          std::map<std::string, std::string> metadata) {
  Result<Layout> layout =
      layOut(tensors, std::move(metadata), "'" + path + "'");
  if (!layout.ok())
    return layout.status();
  Result<OutputFile> file = OutputFile::create(path);
  if (!file.ok())
    return file.status();
  if (Status status = file->reserve(layout->fileBytes); !status.ok())
    return status;
  if (Status status = file->write(layout->header.data(), layout->header.size());
      !status.ok())
    return status;
  return SafeTensorsWriter(std::move(*file), layout->fileBytes);
}

Status SafeTensorsWriter::write(const void *data, uint64_t bytes) {
  if (bytes > fileBytes_ - file_.bytesWritten())
    return Status::error(
        "'" + file_.path() +
        "': more data is written than the declared tensors have");
  return file_.write(data, bytes);
}

Status SafeTensorsWriter::finish() {
  if (file_.bytesWritten() != fileBytes_)
    return Status::error("'" + file_.path() + "': " +
                         std::to_string(fileBytes_ - file_.bytesWritten()) +
                         " bytes of the declared tensors were not written");
  return file_.commit();
}

Result<uint64_t> kiln::support::safeTensorsFileBytes(
    const std::vector<TensorDeclaration> &tensors) {
  Result<Layout> layout = layOut(tensors, {}, "tensors to save");
  if (!layout.ok())
    return layout.status();
  return layout->fileBytes;
}
