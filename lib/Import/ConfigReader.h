//===- ConfigReader.h - Checked access to a config.json ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the keys of one JSON object. Every accessor checks type and range and
// marks its key as read; the first failure is kept and later reads return a
// value within their range, so that a caller reads a whole configuration and
// asks once, through finish(), whether all of it was good. finish() also
// refuses the keys that were not read, whatever their value, since such a key
// may change what the model computes. The top of a file has a table of keys
// (ConfigKeys.h), which gives the defaults of absent keys and lists those that
// may be present without being read.
//
// A key that is null counts as absent, as it does for the library that writes
// these files, except where its table says otherwise.
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
  /// Reads the top of a file. `object` is a JSON object and outlives the
  /// reader. finish() lets the keys named in `ignored` pass.
  ConfigReader(const nlohmann::json &object, std::string file,
               llvm::ArrayRef<std::string> ignored = {})
      : object(object), file(std::move(file)), ignored(ignored) {}
  /// Reads an object that is the value of `key` at the top of a file.
  ConfigReader(const nlohmann::json &object, const ConfigReader &top,
               llvm::StringRef key)
      : object(object), file(top.file), path(key.str() + "."),
        ignored(top.ignored) {}

  const std::string &getFile() const { return file; }

  /// Sets the table of the keys at the top of the file, and checks that each
  /// ignored key is in the file and is not one that is honoured.
  llvm::Error setTable(const FamilyKeys &table);

  /// The key is there and is not null. Does not mark it as understood.
  bool has(llvm::StringRef key) const;
  /// The key is there, even if null.
  bool mentions(llvm::StringRef key) const;

  // Readers of values. Without the argument `absent`, an absent key has the
  // default that the table gives.
  int64_t requireInteger(llvm::StringRef key, int64_t low, int64_t high);
  int64_t getInteger(llvm::StringRef key, int64_t low, int64_t high);
  int64_t getInteger(llvm::StringRef key, int64_t absent, int64_t low,
                     int64_t high);
  /// Nothing for null, or for an absent key whose default is null.
  std::optional<int64_t> getOptionalInteger(llvm::StringRef key, int64_t low,
                                            int64_t high);
  /// A finite number in [low, high].
  double requireReal(llvm::StringRef key, double low, double high);
  double getReal(llvm::StringRef key, double low, double high);
  double getReal(llvm::StringRef key, double absent, double low, double high);
  /// A probability in [0, 1).
  double getProbability(llvm::StringRef key);
  bool getBool(llvm::StringRef key);
  std::string getString(llvm::StringRef key);
  std::string getString(llvm::StringRef key, llvm::StringRef absent);
  /// An array of strings; empty when absent.
  std::vector<std::string> getStrings(llvm::StringRef key);
  /// An object, or null when absent.
  const nlohmann::json *getObject(llvm::StringRef key);

  /// Reads `other` as another name of `key`: from then on `key` finds its
  /// value. Fails when both are there and differ.
  void addSpelling(llvm::StringRef key, llvm::StringRef other);

  /// Records that `key` has a value that cannot be honoured.
  void refuse(llvm::StringRef key, const llvm::Twine &supported);

  bool failed() const { return failure.has_value(); }
  /// A failure of this reader, if there was one, or the first key that was not
  /// read and may not be present.
  llvm::Error finish(llvm::StringRef modelType);

private:
  const nlohmann::json *find(llvm::StringRef key);
  /// The library's default of `key`, which the table has as honoured; null if
  /// the library declares none.
  nlohmann::json tableDefault(llvm::StringRef key) const;
  /// Checks a key that no accessor was asked for.
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
