//===- ConfigKeys.h - Tables of configuration keys --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A config.json contains settings for the transformers library. If kiln ignored
// a key that matters, it would compile a different model than the file
// describes, so each family of models has a table of all keys that its files
// may contain. A key without a row is rejected regardless of its value.
//
// The tables list the keys that the configuration classes of one version of the
// library declare, with the defaults of these keys. If the library is
// installed, a test compares the tables with the classes, and checks that the
// library reads no key marked as KeyUse::Unread while it builds and trains a
// model.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_IMPORT_CONFIGKEYS_H
#define KILN_LIB_IMPORT_CONFIGKEYS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kiln {

/// Version of transformers that the tables describe.
constexpr llvm::StringLiteral kLibraryVersion = "5.23.0";

enum class KeyUse {
  /// An importer reads the key. Every value is either implemented or rejected.
  Honoured,
  /// The key is not implemented, so only some values are accepted.
  Fixed,
  /// The transformers library reads the key, but the key does not affect a
  /// training step.
  Inert,
  /// The library's code for the family does not read the key.
  Unread
};

struct ConfigKey {
  llvm::StringLiteral name;
  KeyUse use;
  /// Default of transformers' configuration class as JSON; empty if the class
  /// does not declare the key.
  llvm::StringLiteral libraryDefault;
  /// Accepted values of a Fixed key as a JSON array.
  llvm::StringLiteral accepted;
  /// For Fixed keys, a description of the supported values for error messages.
  /// For Inert and Unread keys, the reason why they have no effect.
  llvm::StringLiteral note;
};

// Each of these functions returns one row of a table.
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

/// The keys that the configuration of one family of models may contain.
struct FamilyKeys {
  /// Tables in order of precedence: the family's own table, then shared ones.
  llvm::ArrayRef<llvm::ArrayRef<ConfigKey>> tables;

  /// Returns the row of a key, or null.
  const ConfigKey *find(llvm::StringRef name) const;
};

// Tables of keys that several families of models share.
llvm::ArrayRef<ConfigKey> commonKeys();
/// Returns the keys of GPT-2 that the Llama family does not read.
llvm::ArrayRef<ConfigKey> foreignGpt2Keys();
/// Returns the keys that Llama, Mistral and Qwen2 read in the same way.
llvm::ArrayRef<ConfigKey> rotaryKeys();

const FamilyKeys &gpt2Keys();
const FamilyKeys &llamaKeys();
const FamilyKeys &mistralKeys();
const FamilyKeys &qwen2Keys();

} // namespace kiln

#endif // KILN_LIB_IMPORT_CONFIGKEYS_H
