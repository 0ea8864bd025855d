//===- StorageType.cpp - Tensor type in config.json -----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Libraries load a model in the type that its config.json specifies, so the
// config.json of a saved model must specify the type of the saved tensors. The
// text is edited in place to preserve its formatting.
//
//===----------------------------------------------------------------------===//

#include "kiln/Import/HuggingFace.h"
#include "kiln/Support/Json.h"

using namespace kiln::support;
using namespace kiln;
using llvm::StringRef;

namespace {

/// Scans text that is known to be valid JSON.
class Scanner {
public:
  explicit Scanner(StringRef text) : text(text) {}

  std::size_t position() const { return at; }
  char next() {
    at = text.find_first_not_of(" \t\r\n", at);
    return text[at];
  }
  void skip(std::size_t count) { at += count; }

  /// Skips a string and returns it with its quotes.
  StringRef skipString() {
    std::size_t start = at++;
    while (text[at] != '"')
      at += text[at] == '\\' ? 2 : 1;
    return text.slice(start, ++at);
  }

  /// Skips a value of any kind.
  void skipValue() {
    int depth = 0;
    do {
      char c = next();
      if (c == '"') {
        skipString();
        continue;
      }
      if (c == '{' || c == '[')
        ++depth;
      else if (c == '}' || c == ']')
        --depth;
      else if (c != ',' && c != ':') {
        at = text.find_first_of(" \t\r\n,:]}", at);
        continue;
      }
      ++at;
    } while (depth > 0);
  }

private:
  StringRef text;
  std::size_t at = 0;
};

} // namespace

std::string kiln::withStorageType(StringRef config, StringRef type) {
  Result<nlohmann::json> json = parseJson(config.str(), "config.json");
  if (!json.ok() || !json->is_object() || json->empty())
    return config.str();
  std::string edited;
  std::size_t copied = 0;
  Scanner scanner(config);
  scanner.next();
  do {
    // The scanner is at the opening brace of the object, or at the comma before
    // the next member.
    scanner.skip(1);
    scanner.next();
    nlohmann::json key =
        nlohmann::json::parse(scanner.skipString().str(), nullptr, false);
    scanner.next(); // The colon.
    scanner.skip(1);
    scanner.next();
    std::size_t start = scanner.position();
    scanner.skipValue();
    if (key == "dtype" || key == "torch_dtype") {
      edited += config.slice(copied, start);
      edited += jsonQuoted(type.str());
      copied = scanner.position();
    }
  } while (scanner.next() == ',');
  return edited + config.substr(copied).str();
}
