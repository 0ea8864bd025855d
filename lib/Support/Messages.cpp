//===- Messages.cpp - Untrusted text in messages --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Messages.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Messages.h"
#include <cerrno>
#include <system_error>

using namespace kiln::support;

std::string kiln::support::printable(std::string_view text, std::size_t limit) {
  std::string result;
  for (unsigned char c : text.substr(0, limit)) {
    if (c >= 0x20 && c < 0x7f) {
      result += c;
      continue;
    }
    result += "\\x";
    result += "0123456789abcdef"[c >> 4];
    result += "0123456789abcdef"[c & 15];
  }
  if (text.size() > limit)
    result += "...";
  return result;
}

std::string kiln::support::inQuotes(std::string_view text, std::size_t limit) {
  return "'" + printable(text, limit) + "'";
}

std::string kiln::support::shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string kiln::support::errnoText(int error) {
  return std::generic_category().message(error);
}

std::string kiln::support::writeFault(int error) {
  switch (error) {
  case ENOENT:
    return errnoText(error) + "; create its directory first";
  case EACCES:
  case EPERM:
  case EROFS:
    return errnoText(error) + "; choose a writable path";
  case ENOSPC:
    return errnoText(error) + "; free space or choose another path";
  default:
    return errnoText(error);
  }
}
