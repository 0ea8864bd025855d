//===- ConfigKeys.cpp - Tables of configuration keys ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigKeys.h"

#include "kiln/Import/HuggingFace.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace kiln;
using llvm::StringRef;
using llvm::json::Object;

const ConfigKey *FamilyKeys::find(StringRef name) const {
  for (llvm::ArrayRef<ConfigKey> table : tables)
    for (const ConfigKey &key : table)
      if (key.name == name)
        return &key;
  return nullptr;
}

static StringRef spelled(KeyUse use) {
  switch (use) {
  case KeyUse::Honoured:
    return "honoured";
  case KeyUse::Fixed:
    return "fixed";
  case KeyUse::Inert:
    return "inert";
  case KeyUse::Unread:
    return "unread";
  }
  llvm_unreachable("all uses are listed");
}

static llvm::json::Value parsed(StringRef text) {
  return llvm::cantFail(llvm::json::parse(text));
}

static Object describe(const ConfigKey &key) {
  Object row{{"key", key.name}, {"use", spelled(key.use)}};
  if (!key.libraryDefault.empty())
    row["default"] = parsed(key.libraryDefault);
  if (key.use == KeyUse::Fixed) {
    row["accepted"] = parsed(key.accepted);
    row["supported"] = key.note;
  } else if (!key.note.empty()) {
    row["reason"] = key.note;
  }
  return row;
}

std::string kiln::listConfigKeys() {
  Object families;
  const std::pair<StringRef, const FamilyKeys *> all[] = {
      {"gpt2", &gpt2Keys()},
      {"llama", &llamaKeys()},
      {"mistral", &mistralKeys()},
      {"qwen2", &qwen2Keys()}};
  for (auto [name, keys] : all) {
    llvm::json::Array rows;
    llvm::StringSet<> seen;
    for (llvm::ArrayRef<ConfigKey> table : keys->tables)
      for (const ConfigKey &key : table)
        // The first table that contains a key takes precedence.
        if (seen.insert(key.name).second)
          rows.push_back(describe(key));
    families[name] = std::move(rows);
  }
  Object root{{"transformers", kLibraryVersion},
              {"families", std::move(families)}};
  return llvm::formatv("{0:2}\n", llvm::json::Value(std::move(root))).str();
}
