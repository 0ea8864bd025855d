//===- Messages.h - Untrusted text in messages ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names that are read from files may contain arbitrary bytes, such as line
// breaks and terminal escapes, and may be very long. inQuotes makes them safe
// to include in a one-line message.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_MESSAGES_H
#define KILN_SUPPORT_MESSAGES_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::support {

/// Returns the first `limit` bytes of `text`, with every byte outside printable
/// ASCII as \xNN, and followed by "..." if `text` is longer.
std::string printable(std::string_view text, std::size_t limit = 120);

/// Returns printable(text) in single quotes.
std::string inQuotes(std::string_view text, std::size_t limit = 120);

/// Returns a shape such as "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);

/// Returns the description of an errno value, such as "No space left on
/// device".
std::string errnoText(int error);

/// Returns errnoText for a file or directory that could not be written,
/// followed by advice for common errors.
std::string writeFault(int error);

} // namespace kiln::support

#endif // KILN_SUPPORT_MESSAGES_H
