//===- ConfigKeys.h - What kiln does with each configuration key -*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A config.json is a list of settings for code that kiln does not run. A key
// that kiln overlooked would compile a model other than the one the file
// describes, so each family has a table of all keys that may be in its files.
// A key in no table is refused whatever its value.
//
// The tables repeat facts about one version of the library: the keys that its
// configuration classes declare and their defaults. A test compares them with
// the library where it is installed, and checks that no key of use Unread is
// read when the library builds and trains the model.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_IMPORT_CONFIGKEYS_H
#define KILN_LIB_IMPORT_CONFIGKEYS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kiln {

/// The version of transformers that the tables describe.
constexpr llvm::StringLiteral kLibraryVersion = "5.23.0";

enum class KeyUse {
  /// An importer reads it. Every value is honoured or refused by name.
  Honoured,
  /// Not implemented, so only some values are accepted.
  Fixed,
  /// The library reads it, but it does not change a training step.
  Inert,
  /// The library's code for the family never reads it.
  Unread
};

struct ConfigKey {
  llvm::StringLiteral name;
  KeyUse use;
  /// The value, as JSON, that the library's configuration class declares for an
  /// absent key. Empty: the class does not declare the key.
  llvm::StringLiteral libraryDefault;
  /// The accepted values of a Fixed key, as a JSON array.
  llvm::StringLiteral accepted;
  /// Fixed: what is supported, for the message that refuses another value.
  /// Inert and Unread: why the key does not matter.
  llvm::StringLiteral note;
};

// One row of a table each.
constexpr ConfigKey honoured(llvm::StringLiteral name,
                             llvm::StringLiteral libraryDefault = "") {
  return {name, KeyUse::Honoured, libraryDefault, "", ""};
}
constexpr ConfigKey fixed(llvm::StringLiteral name,
                          llvm::StringLiteral libraryDefault,
                          llvm::StringLiteral accepted,
                          llvm::StringLiteral supported) {
  return {name, KeyUse::Fixed, libraryDefault, accepted, supported};
}
constexpr ConfigKey inert(llvm::StringLiteral name,
                          llvm::StringLiteral libraryDefault,
                          llvm::StringLiteral reason) {
  return {name, KeyUse::Inert, libraryDefault, "", reason};
}
constexpr ConfigKey unread(llvm::StringLiteral name,
                           llvm::StringLiteral reason) {
  return {name, KeyUse::Unread, "", "", reason};
}
constexpr ConfigKey unread(llvm::StringLiteral name,
                           llvm::StringLiteral libraryDefault,
                           llvm::StringLiteral reason) {
  return {name, KeyUse::Unread, libraryDefault, "", reason};
}

/// All keys that the configuration of one family may have.
struct FamilyKeys {
  /// Tables in order of precedence: the family's own, then shared ones.
  llvm::ArrayRef<llvm::ArrayRef<ConfigKey>> tables;

  /// The row of a key, or null.
  const ConfigKey *find(llvm::StringRef name) const;
};

// Tables that families share.
llvm::ArrayRef<ConfigKey> commonKeys();
/// Keys of GPT-2 that Llama and its relatives do not read.
llvm::ArrayRef<ConfigKey> foreignGpt2Keys();
/// Keys that Llama, Mistral and Qwen2 read in the same way.
llvm::ArrayRef<ConfigKey> rotaryKeys();

const FamilyKeys &gpt2Keys();
const FamilyKeys &llamaKeys();
const FamilyKeys &mistralKeys();
const FamilyKeys &qwen2Keys();

} // namespace kiln

#endif // KILN_LIB_IMPORT_CONFIGKEYS_H
