//===- ConfigReader.cpp - Checked access to a config.json -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file is compiled without exceptions, so it uses only non-throwing
// members of nlohmann::json: each access follows a type check.
//
//===----------------------------------------------------------------------===//

#include "ConfigReader.h"

#include "kiln/Support/Messages.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace kiln::support;
using namespace kiln;
using llvm::StringRef;
using llvm::Twine;
using nlohmann::json;

/// Formats a value for a one-line message and truncates it.
static std::string shown(const json &value) {
  constexpr std::size_t limit = 60;
  if (value.is_object() || value.is_array()) {
    const char *kind = value.is_object() ? "an object" : "an array";
    if (value.size() > 4)
      return kind;
  }
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true,
                                json::error_handler_t::replace);
  if (text.size() > limit)
    text = text.substr(0, limit) + "...";
  return text;
}

static std::string shownReal(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

static llvm::Error ignoredButHonoured(const std::string &name,
                                      const json &value,
                                      const std::string &file) {
  return llvm::make_error<ImportError>(
      ExitCode::Usage, "--ignore-config-keys names '" + name +
                           "', which kiln honours (it is " + shown(value) +
                           " in " + file + "); change the file instead");
}

llvm::Error ConfigReader::setTable(const FamilyKeys &keys) {
  table = &keys;
  for (const std::string &name : ignored) {
    auto found = object.find(name);
    if (found != object.end()) {
      const ConfigKey *row = keys.find(name);
      if (row && row->use == KeyUse::Honoured)
        return ignoredButHonoured(name, *found, file);
      continue;
    }
    auto [outer, inner] = StringRef(name).split('.');
    auto object = this->object.find(outer.str());
    if (object == this->object.end() || !object->is_object() ||
        object->find(inner.str()) == object->end())
      return llvm::make_error<ImportError>(
          ExitCode::Usage, "--ignore-config-keys names '" + printable(name) +
                               "', which " + file + " does not have");
  }
  return llvm::Error::success();
}

json ConfigReader::tableDefault(StringRef key) const {
  const ConfigKey *row = table ? table->find(key) : nullptr;
  assert(row && row->use == KeyUse::Honoured &&
         "an importer reads a key that its table does not have as honoured");
  if (row->libraryDefault.empty())
    return nullptr;
  return json::parse(row->libraryDefault.str(), nullptr, false);
}

void ConfigReader::fail(std::string message) {
  if (!failure)
    failure = file + ": " + std::move(message);
}

void ConfigReader::expected(StringRef key, const json *value,
                            const Twine &what) {
  std::string found = value ? "is " + shown(*value) : std::string("is missing");
  fail("'" + path + key.str() + "' " + found + ", expected " + what.str());
}

const json *ConfigReader::find(StringRef key) {
  read.insert(key);
  for (const auto &[name, other] : spellings)
    if (name == key) {
      auto found = object.find(other);
      if (found != object.end() && !found->is_null())
        return &*found;
    }
  auto found = object.find(key.str());
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::has(StringRef key) const {
  auto found = object.find(key.str());
  return found != object.end() && !found->is_null();
}

bool ConfigReader::mentions(StringRef key) const {
  return object.find(key.str()) != object.end();
}

void ConfigReader::addSpelling(StringRef key, StringRef other) {
  read.insert(other);
  if (!has(other))
    return;
  if (has(key)) {
    const json &first = *object.find(key.str());
    const json &second = *object.find(other.str());
    if (first != second)
      fail("'" + path + key.str() + "' is " + shown(first) + " but '" + path +
           other.str() + "', another name of the same key, is " +
           shown(second) + "; remove one of them");
  }
  spellings.emplace_back(key.str(), other.str());
}

int64_t ConfigReader::requireInteger(StringRef key, int64_t low, int64_t high) {
  const json *value = find(key);
  if (value && value->is_number_unsigned()) {
    uint64_t number = value->get<uint64_t>();
    if (number <= static_cast<uint64_t>(INT64_MAX) &&
        static_cast<int64_t>(number) >= low &&
        static_cast<int64_t>(number) <= high)
      return static_cast<int64_t>(number);
  } else if (value && value->is_number_integer()) {
    int64_t number = value->get<int64_t>();
    if (number >= low && number <= high)
      return number;
  }
  expected(key, value, "an integer from " + Twine(low) + " to " + Twine(high));
  return low;
}

int64_t ConfigReader::getInteger(StringRef key, int64_t absent, int64_t low,
                                 int64_t high) {
  return find(key) ? requireInteger(key, low, high) : absent;
}

int64_t ConfigReader::getInteger(StringRef key, int64_t low, int64_t high) {
  return getInteger(key, tableDefault(key).get<int64_t>(), low, high);
}

std::optional<int64_t>
ConfigReader::getOptionalInteger(StringRef key, int64_t low, int64_t high) {
  if (find(key))
    return requireInteger(key, low, high);
  json absent = tableDefault(key);
  if (mentions(key) || absent.is_null())
    return std::nullopt;
  return absent.get<int64_t>();
}

double ConfigReader::requireReal(StringRef key, double low, double high) {
  const json *value = find(key);
  if (value && value->is_number()) {
    double number = value->get<double>();
    if (std::isfinite(number) && number >= low && number <= high)
      return number;
  }
  expected(key, value,
           "a number from " + Twine(shownReal(low)) + " to " + shownReal(high));
  return low;
}

double ConfigReader::getReal(StringRef key, double absent, double low,
                             double high) {
  return find(key) ? requireReal(key, low, high) : absent;
}

double ConfigReader::getReal(StringRef key, double low, double high) {
  return getReal(key, tableDefault(key).get<double>(), low, high);
}

double ConfigReader::getProbability(StringRef key) {
  const json *value = find(key);
  if (!value)
    return tableDefault(key).get<double>();
  if (value->is_number()) {
    double number = value->get<double>();
    if (number >= 0.0 && number < 1.0)
      return number;
  }
  expected(key, value, "a probability, at least 0 and below 1");
  return 0.0;
}

bool ConfigReader::getBool(StringRef key) {
  bool absent = tableDefault(key).get<bool>();
  const json *value = find(key);
  if (!value)
    return absent;
  if (value->is_boolean())
    return value->get<bool>();
  expected(key, value, "true or false");
  return absent;
}

std::string ConfigReader::getString(StringRef key) {
  return getString(key, tableDefault(key).get<std::string>());
}

std::string ConfigReader::getString(StringRef key, StringRef absent) {
  const json *value = find(key);
  if (!value)
    return absent.str();
  if (const auto *text = value->get_ptr<const std::string *>())
    return *text;
  expected(key, value, "a string");
  return absent.str();
}

std::vector<std::string> ConfigReader::getStrings(StringRef key) {
  std::vector<std::string> strings;
  const json *value = find(key);
  if (!value)
    return strings;
  if (value->is_array())
    for (const json &element : *value)
      if (const auto *text = element.get_ptr<const std::string *>())
        strings.push_back(*text);
  if (!value->is_array() || strings.size() != value->size())
    expected(key, value, "an array of strings");
  return strings;
}

const json *ConfigReader::getObject(StringRef key) {
  const json *value = find(key);
  if (!value || value->is_object())
    return value;
  expected(key, value, "an object or null");
  return nullptr;
}

void ConfigReader::refuse(StringRef key, const Twine &supported) {
  const json *value = find(key);
  std::string found = value ? "is " + shown(*value) : std::string("is missing");
  fail("'" + path + key.str() + "' " + found +
       ", which kiln does not support; supported: " + supported.str());
}

void ConfigReader::checkUnread(const std::string &key, const json &value,
                               StringRef modelType) {
  // Keys that start with an underscore are metadata of the library that wrote
  // the file.
  if (StringRef(key).starts_with("_") ||
      llvm::is_contained(ignored, path + key))
    return;
  const ConfigKey *row = table ? table->find(key) : nullptr;
  if (row && row->use == KeyUse::Fixed) {
    json accepted = json::parse(row->accepted.str(), nullptr, false);
    if (std::find(accepted.begin(), accepted.end(), value) == accepted.end())
      fail("'" + path + key + "' is " + shown(value) +
           ", which kiln does not support; supported: " + row->note.str());
    return;
  }
  if (value.is_null() || (row && row->use != KeyUse::Honoured))
    return;
  fail(shown(json(path + key)) + " is " + shown(value) +
       ", but kiln does not know this key for model_type '" + modelType.str() +
       "', and the key may change what the model computes; if it does not, "
       "remove it or pass --ignore-config-keys=" +
       printable(path + key));
}

llvm::Error ConfigReader::finish(StringRef modelType) {
  for (auto entry = object.begin(); !failure && entry != object.end(); ++entry)
    if (!read.contains(entry.key()))
      checkUnread(entry.key(), entry.value(), modelType);
    else if (!path.empty() && llvm::is_contained(ignored, path + entry.key()))
      return ignoredButHonoured(path + entry.key(), entry.value(), file);
  if (!failure)
    return llvm::Error::success();
  return llvm::make_error<ImportError>(ExitCode::BadInput, *failure);
}
