//===- SourceCheck.cpp - Checks before parsing ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/SourceCheck.h"

#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

static bool isNameChar(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.';
}

/// Skips a string, a comment, a name or a single character at the start of
/// `rest`. Returns the skipped text.
static StringRef takeToken(StringRef &rest) {
  size_t length = 1;
  if (rest.front() == '"') {
    while (length < rest.size() && rest[length] != '"' && rest[length] != '\n')
      length += rest[length] == '\\' ? 2 : 1;
    ++length;
  } else if (rest.starts_with("//")) {
    length = rest.find('\n');
  } else if (isNameChar(rest.front())) {
    length = rest.take_while(isNameChar).size();
  }
  StringRef token = rest.take_front(length);
  rest = rest.drop_front(token.size());
  return token;
}

std::optional<std::string> kiln::findUnparsable(StringRef source) {
  // The two tokens before `token`. Blanks and comments do not count as tokens.
  StringRef before, last;
  for (StringRef rest = source; !rest.empty();) {
    StringRef token = takeToken(rest);
    if (llvm::isSpace(token.front()) || token.starts_with("//"))
      continue;
    if (token == "index" && last == "<" && before == "array") {
      size_t at = token.data() - source.data();
      return "line " + std::to_string(1 + source.take_front(at).count('\n')) +
             ": 'array<index' is not a supported array type; expected "
             "a type with a width, such as array<i64>";
    }
    before = last;
    last = token;
  }
  return std::nullopt;
}

std::string kiln::firstLineOf(StringRef diagnostic) {
  auto [line, rest] = diagnostic.split('\n');
  return line.rtrim().str() + (rest.empty() ? "" : " ...");
}
