//===- ConfigReader.h - Checked access to a config.json ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the keys of one JSON object. Every accessor checks type and range and
// marks its key as understood; the first failure is kept and later reads return
// a value within their range, so that a caller reads a whole configuration and
// asks once, through finish(), whether all of it was good. finish() also
// refuses the keys that nobody asked for, since such a key may change what the
// model computes; a key whose value says "nothing" (null, false, empty) may
// not.
//
// A key that is null counts as absent, as it does for the libraries that write
// these files.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_IMPORT_CONFIGREADER_H
#define KILN_LIB_IMPORT_CONFIGREADER_H

#include "kiln/Import/HuggingFace.h"
#include "kiln/Runtime/Files/Json.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

namespace kiln {

class ConfigReader {
public:
  /// `object` is a JSON object and outlives the reader. `path` leads to it
  /// inside the file, such as "rope_scaling.", and is empty at the top.
  ConfigReader(const nlohmann::json &object, std::string file,
               std::string path = "")
      : object(object), file(std::move(file)), path(std::move(path)) {}

  const std::string &getFile() const { return file; }

  /// The key is there and is not null. Does not mark it as understood.
  bool has(llvm::StringRef key) const;
  /// The key is there, even if null.
  bool mentions(llvm::StringRef key) const;

  int64_t requireInteger(llvm::StringRef key, int64_t low, int64_t high);
  int64_t getInteger(llvm::StringRef key, int64_t absent, int64_t low,
                     int64_t high);
  /// A finite number in [low, high].
  double requireReal(llvm::StringRef key, double low, double high);
  double getReal(llvm::StringRef key, double absent, double low, double high);
  /// A probability in [0, 1).
  double getProbability(llvm::StringRef key, double absent);
  bool getBool(llvm::StringRef key, bool absent);
  std::string getString(llvm::StringRef key, llvm::StringRef absent);
  /// An array of strings; empty when absent.
  std::vector<std::string> getStrings(llvm::StringRef key);
  /// An object, or null when absent.
  const nlohmann::json *getObject(llvm::StringRef key);

  /// Reads `other` as another name of `key`: from then on `key` finds its
  /// value. Fails when both are there and differ.
  void addSpelling(llvm::StringRef key, llvm::StringRef other);

  /// Marks keys as understood and without influence on the computation.
  void ignore(llvm::ArrayRef<llvm::StringLiteral> keys);

  /// Records that `key` has a value that cannot be honoured.
  void refuse(llvm::StringRef key, const llvm::Twine &supported);

  bool failed() const { return failure.has_value(); }
  /// A failure of this reader, if there was one, or the first key that nothing
  /// understood.
  llvm::Error finish(llvm::StringRef modelType);

private:
  const nlohmann::json *find(llvm::StringRef key);
  void fail(std::string message);
  void expected(llvm::StringRef key, const nlohmann::json *value,
                const llvm::Twine &what);

  const nlohmann::json &object;
  std::string file, path;
  llvm::StringSet<> understood;
  std::vector<std::pair<std::string, std::string>> spellings;
  std::optional<std::string> failure;
};

} // namespace kiln

#endif // KILN_LIB_IMPORT_CONFIGREADER_H
