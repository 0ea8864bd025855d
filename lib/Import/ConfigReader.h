//===- ConfigReader.h - Checked access to a config.json ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the keys of one JSON object. Every accessor checks the type and the
// range of a value and marks its key as read. The first failure is recorded.
// An accessor that fails returns a valid value, so a caller can read a whole
// configuration and check for errors once, with finish(). finish() also rejects
// keys that were not read, because they may change what the model computes. The
// table of the top-level object (ConfigKeys.h) provides the defaults of absent
// keys and lists the keys that may be present without being read.
//
// A null value counts as absent, as in the transformers library, unless the
// table specifies otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_IMPORT_CONFIGREADER_H
#define KILN_LIB_IMPORT_CONFIGREADER_H

#include "ConfigKeys.h"

#include "kiln/Import/HuggingFace.h"
#include "kiln/Support/Json.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <optional>

namespace kiln {

class ConfigReader {
public:
  /// Reads the top-level object of a file. `object` must be a JSON object and
  /// must outlive the reader. finish() accepts the keys in `ignored`.
  ConfigReader(const nlohmann::json &object, std::string file,
               llvm::ArrayRef<std::string> ignored = {})
      : object(object), file(std::move(file)), ignored(ignored) {}
  /// Reads an object that is the value of the top-level key `key`.
  ConfigReader(const nlohmann::json &object, const ConfigReader &top,
               llvm::StringRef key)
      : object(object), file(top.file), path(key.str() + "."),
        ignored(top.ignored) {}

  const std::string &getFile() const { return file; }

  /// Sets the table of the top-level keys. Fails if one of the `ignored` keys
  /// that were passed to the constructor is missing from the file or is marked
  /// as KeyUse::Honoured in the table.
  llvm::Error setTable(const FamilyKeys &table);

  /// Returns true if the key is present and not null. Does not mark it as read.
  bool has(llvm::StringRef key) const;
  /// Returns true if the key is present, even if it is null.
  bool mentions(llvm::StringRef key) const;

  // These functions read a value. If the key is absent, require...() records an
  // error, and get...() returns `absent` or, without this parameter, the
  // default in the table of the keys (see setTable()).
  int64_t requireInteger(llvm::StringRef key, int64_t low, int64_t high);
  int64_t getInteger(llvm::StringRef key, int64_t low, int64_t high);
  int64_t getInteger(llvm::StringRef key, int64_t absent, int64_t low,
                     int64_t high);
  /// Returns nullopt for null and for an absent key whose default is null.
  std::optional<int64_t> getOptionalInteger(llvm::StringRef key, int64_t low,
                                            int64_t high);
  /// Reads a finite number in [low, high].
  double requireReal(llvm::StringRef key, double low, double high);
  double getReal(llvm::StringRef key, double low, double high);
  double getReal(llvm::StringRef key, double absent, double low, double high);
  /// Reads a probability in [0, 1).
  double getProbability(llvm::StringRef key);
  bool getBool(llvm::StringRef key);
  std::string getString(llvm::StringRef key);
  std::string getString(llvm::StringRef key, llvm::StringRef absent);
  /// Reads an array of strings; returns an empty vector if absent.
  std::vector<std::string> getStrings(llvm::StringRef key);
  /// Returns an object, or null if absent.
  const nlohmann::json *getObject(llvm::StringRef key);

  /// Declares `other` as an alternative name of `key`, so that reading `key`
  /// also finds the value of `other`. Fails if both keys are present and have
  /// different values.
  void addSpelling(llvm::StringRef key, llvm::StringRef other);

  /// Records the error that the value of `key` is not supported.
  void refuse(llvm::StringRef key, const llvm::Twine &supported);

  bool failed() const { return failure.has_value(); }
  /// Returns the recorded failure. If there is none, returns an error for the
  /// first unread key that neither the table nor `ignored` permits, if any.
  llvm::Error finish(llvm::StringRef modelType);

private:
  const nlohmann::json *find(llvm::StringRef key);
  /// Returns the default that the table gives for `key`, or null if
  /// transformers declares no default. The table must mark `key` as
  /// KeyUse::Honoured.
  nlohmann::json tableDefault(llvm::StringRef key) const;
  /// Checks a key that no accessor has read.
  void checkUnread(const std::string &key, const nlohmann::json &value,
                   llvm::StringRef modelType);
  void fail(std::string message);
  void expected(llvm::StringRef key, const nlohmann::json *value,
                const llvm::Twine &what);

  const nlohmann::json &object;
  std::string file, path;
  const FamilyKeys *table = nullptr;
  llvm::ArrayRef<std::string> ignored;
  llvm::StringSet<> read;
  std::vector<std::pair<std::string, std::string>> spellings;
  std::optional<std::string> failure;
};

} // namespace kiln

#endif // KILN_LIB_IMPORT_CONFIGREADER_H
