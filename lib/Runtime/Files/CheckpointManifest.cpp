//===- CheckpointManifest.cpp - The manifest of a checkpoint --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The manifest marks a checkpoint as complete. It is written after all other
// files, and lists every file with its size and hash. The last member of the
// manifest is a hash of all bytes before that member, which detects any
// corruption of the manifest.
//
//===----------------------------------------------------------------------===//

#include "CheckpointFormat.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Posix.h"
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;
using nlohmann::json;

namespace {

constexpr uint64_t kMaxManifestBytes = 16u << 20;
constexpr int64_t kFormat = 1;
constexpr std::string_view kHashStart = ",\n  \"manifest_hash\": \"";
constexpr std::string_view kHashEnd = "\"\n}\n";
constexpr std::size_t kHashDigits = 32;
constexpr std::string_view kDirectoryPrefix = "checkpoint-";

std::string hashOf(std::string_view text) {
  StreamHash hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

/// Returns the integer member `key`, which must be in [0, 2^63).
std::optional<int64_t> member(const json &object, const char *key) {
  auto it = object.find(key);
  if (it == object.end() || !it->is_number_unsigned() ||
      it->get<uint64_t>() > uint64_t(INT64_MAX))
    return std::nullopt;
  return it->get<int64_t>();
}

std::optional<std::string> stringMember(const json &object, const char *key) {
  auto it = object.find(key);
  if (it == object.end() || !it->is_string())
    return std::nullopt;
  return it->get<std::string>();
}

} // namespace

std::string kiln::runtime::checkpointName(int64_t step) {
  return std::string(kDirectoryPrefix) + std::to_string(step);
}

std::optional<int64_t>
kiln::runtime::parseCheckpointName(std::string_view name) {
  if (name.substr(0, kDirectoryPrefix.size()) != kDirectoryPrefix)
    return std::nullopt;
  std::string_view digits = name.substr(kDirectoryPrefix.size());
  int64_t step = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // Reject names that checkpointName does not generate, such as "+7" or "007".
  if (error != std::errc() || step < 0 || name != checkpointName(step))
    return std::nullopt;
  return step;
}

std::string kiln::runtime::manifestText(const CheckpointManifest &manifest) {
  json files = json::array();
  for (const CheckpointFile &file : manifest.files)
    files.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.hash}});
  json document = {{"format", kFormat},
                   {"step", manifest.step},
                   {"sequence", manifest.sequence},
                   {"files", std::move(files)},
                   {"extra", manifest.extra}};
  std::string text =
      document.dump(2, ' ', false, json::error_handler_t::replace);
  text.resize(text.size() - std::string_view("\n}").size());
  std::string hash = hashOf(text);
  return text + std::string(kHashStart) + hash + std::string(kHashEnd);
}

Result<CheckpointManifest>
kiln::runtime::parseManifest(std::string_view text, const std::string &source) {
  auto fail = [&](const std::string &message) {
    return Status::badInput(source + ": " + message);
  };
  std::size_t tail = kHashStart.size() + kHashDigits + kHashEnd.size();
  if (text.size() < tail)
    return fail("the manifest is truncated");
  std::string_view body = text.substr(0, text.size() - tail);
  std::string_view ending = text.substr(body.size());
  if (ending.substr(0, kHashStart.size()) != kHashStart ||
      ending.substr(tail - kHashEnd.size()) != kHashEnd)
    return fail("the manifest does not end with a hash of its content");
  if (ending.substr(kHashStart.size(), kHashDigits) != hashOf(body))
    return fail("the content of the manifest does not match its hash");

  JsonLimits limits;
  limits.maxBytes = kMaxManifestBytes;
  Result<json> document = parseJson(text, source, limits);
  if (!document.ok())
    return document.status();
  if (!document->is_object())
    return fail("the manifest is not a JSON object");
  std::optional<int64_t> format = member(*document, "format");
  if (format != kFormat)
    return fail("manifest format " +
                (format ? std::to_string(*format) : std::string("missing")) +
                ", expected " + std::to_string(kFormat) +
                "; use the kiln version that wrote the checkpoint");
  std::optional<int64_t> step = member(*document, "step");
  std::optional<int64_t> sequence = member(*document, "sequence");
  if (!step || !sequence)
    return fail("the manifest has no step or no sequence number");
  auto files = document->find("files");
  if (files == document->end() || !files->is_array())
    return fail("the manifest has no list of files");

  CheckpointManifest manifest;
  manifest.step = *step;
  manifest.sequence = *sequence;
  std::set<std::string> names;
  for (const json &entry : *files) {
    if (!entry.is_object())
      return fail("an entry of the list of files is not an object");
    std::optional<std::string> name = stringMember(entry, "name");
    std::optional<int64_t> bytes = member(entry, "bytes");
    std::optional<std::string> hash = stringMember(entry, "xxh3_128");
    if (!name || !bytes || !hash)
      return fail(
          "an entry of the list of files lacks 'name', 'bytes' or 'xxh3_128'");
    if (!isPlainName(*name))
      return fail("file name " + inQuotes(*name) +
                  " is invalid: expected the name of a file in the checkpoint, "
                  "without a path");
    if (!names.insert(*name).second)
      return fail("file " + inQuotes(*name) + " is listed twice");
    manifest.files.push_back({*name, uint64_t(*bytes), *hash});
  }
  if (auto extra = document->find("extra"); extra != document->end())
    manifest.extra = std::move(*extra);
  return manifest;
}

Result<CheckpointManifest>
kiln::runtime::readManifest(const std::string &path) {
  std::string file = path + "/" + kManifestName;
  Result<std::string> text = readSmallFile(file, kMaxManifestBytes);
  if (!text.ok())
    return text.status();
  Result<CheckpointManifest> manifest = parseManifest(*text, "'" + file + "'");
  if (!manifest.ok())
    return manifest;
  std::optional<int64_t> step = parseCheckpointName(baseName(path));
  if (step && *step != manifest->step)
    return Status::badInput(
        "'" + file + "' has step " + std::to_string(manifest->step) +
        ", but the name of its directory has step " + std::to_string(*step));
  return manifest;
}

Result<std::vector<ListedCheckpoint>>
kiln::runtime::listCheckpoints(const std::string &path) {
  std::error_code error;
  std::filesystem::directory_iterator it(path, error), end;
  std::vector<ListedCheckpoint> list;
  for (; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code ignored;
    std::optional<int64_t> step = parseCheckpointName(name);
    if (!step || !it->is_directory(ignored))
      continue;
    std::string directory = path + "/" + name;
    list.push_back({directory, *step, readManifest(directory)});
  }
  if (error)
    return Status::badInput("cannot list '" + path + "': " + error.message());
  auto age = [](const ListedCheckpoint &entry) {
    return std::make_pair(entry.manifest.ok() ? entry.manifest->sequence : -1,
                          entry.step);
  };
  std::sort(list.begin(), list.end(),
            [&](const ListedCheckpoint &a, const ListedCheckpoint &b) {
              return age(a) < age(b);
            });
  return list;
}
