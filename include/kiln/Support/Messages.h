//===- Messages.h - Untrusted text inside one-line messages -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names that come from files can hold anything: line breaks, terminal escapes,
// a megabyte of text. `inQuotes` makes them fit to stand in a message.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_MESSAGES_H
#define KILN_SUPPORT_MESSAGES_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::support {

/// `text` with every byte outside printable ASCII as \xNN, cut at `limit`
/// bytes, without quotes.
std::string printable(std::string_view text, std::size_t limit = 120);

/// printable(text) in single quotes.
std::string inQuotes(std::string_view text, std::size_t limit = 120);

/// "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);

/// What errno value `error` means, e.g. "No space left on device".
std::string errnoText(int error);

/// Like errnoText, for a file or directory that could not be written: adds what
/// to do about it where that is clear.
std::string writeFault(int error);

} // namespace kiln::support

#endif // KILN_SUPPORT_MESSAGES_H
