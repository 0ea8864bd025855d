//===- Json.h - Parser for untrusted JSON -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses RFC 8259 JSON without exceptions and without recursion: a SAX handler
// counts the nesting depth, so deeply nested input causes an error instead of a
// stack overflow. Besides syntax errors, the parser rejects invalid UTF-8, lone
// surrogate escapes, a byte-order mark, duplicate keys, numbers beyond f64 and
// text beyond the size limit. An integer that fits neither i64 nor u64 becomes
// a floating-point number; use is_number_integer() where an integer is
// required.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_JSON_H
#define KILN_SUPPORT_JSON_H

#include "kiln/Support/Status.h"
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kiln::support {

struct JsonLimits {
  std::size_t maxBytes = 16u << 20;
  int maxDepth = 64;
};

/// Receives the events of one document. A receiver can stop the parser: it sets
/// `error` (a fragment such as "duplicate key 'a'") and returns false. Depth,
/// syntax and encoding are checked before an event is delivered.
class JsonEvents {
public:
  virtual ~JsonEvents() = default;
  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  /// Called for negative integers and for "-0".
  virtual bool integer(int64_t value) = 0;
  /// Called for integers without a sign.
  virtual bool unsignedInteger(uint64_t value) = 0;
  virtual bool real(double value) = 0; ///< The value is finite.
  /// The receiver may move from `value`.
  virtual bool string(std::string &value) = 0;
  /// The receiver may move from `value`.
  virtual bool key(std::string &value) = 0;
  virtual bool startObject() = 0;
  virtual bool endObject() = 0;
  virtual bool startArray() = 0;
  virtual bool endArray() = 0;
  std::string error;
};

/// Parses `text` and sends its events to `events`. `source` names the text in
/// messages.
Status walkJson(std::string_view text, const std::string &source,
                JsonEvents &events, const JsonLimits &limits = {});

/// Parses `text`. A failure has ExitCode::BadInput and reports `source` and the
/// byte offset.
Result<nlohmann::json> parseJson(std::string_view text,
                                 const std::string &source,
                                 const JsonLimits &limits = {});

/// Returns `text` as a quoted JSON string. Bytes that are not valid UTF-8
/// become U+FFFD.
std::string jsonQuoted(std::string_view text);

/// Reads and parses a regular file.
Result<nlohmann::json> readJsonFile(const std::string &path,
                                    const JsonLimits &limits = {});

} // namespace kiln::support

#endif // KILN_SUPPORT_JSON_H
