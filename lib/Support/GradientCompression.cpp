//===- GradientCompression.cpp - Compressed sums of gradients -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/GradientCompression.h"

#include "kiln/Support/Messages.h"

#include <charconv>

namespace kiln::support {

namespace {

/// A scheme whose name is followed by a size, as in "powersgd:4".
struct SchemeInfo {
  CompressionScheme scheme;
  std::string_view name;
  int64_t least, most; ///< The smallest and largest size.
};

} // namespace

static constexpr std::string_view int8Sums = "int8";

// Low-rank matrices of a rank above 64 cost more time than they save. A sketch
// that is more than 256 times smaller than its matrix does not show which
// elements of the matrix are large.
static constexpr SchemeInfo schemes[] = {
    {CompressionScheme::PowerSgd, "powersgd", 1, 64},
    {CompressionScheme::GradZip, "gradzip", 1, 64},
    {CompressionScheme::CountSketch, "count-sketch", 2, 256},
};

std::string GradientCompression::text() const {
  for (const SchemeInfo &info : schemes)
    if (info.scheme == scheme)
      return std::string(info.name) + ":" + std::to_string(size);
  return std::string(any() ? int8Sums : "");
}

bool isCompressionSlot(std::string_view slot) {
  for (std::string_view known :
       {errorSlot, basisSlot, rowBasisSlot, turnSlot, signsSlot})
    if (slot == known)
      return true;
  return false;
}

bool isOfGradients(std::string_view encoding) {
  Result<GradientCompression> parsed = parseGradientCompression(encoding);
  return parsed.ok() && parsed->any();
}

bool hasCompressionStates(std::string_view encoding) {
  Result<GradientCompression> parsed = parseGradientCompression(encoding);
  return parsed.ok() && parsed->hasStates();
}

Result<GradientCompression> parseGradientCompression(std::string_view text) {
  GradientCompression compression;
  if (text.empty())
    return compression;
  if (text == int8Sums) {
    compression.scheme = CompressionScheme::Int8;
    return compression;
  }
  std::size_t colon = text.find(':');
  std::string_view size =
      colon == text.npos ? std::string_view() : text.substr(colon + 1);
  for (const SchemeInfo &info : schemes) {
    if (text.substr(0, colon) != info.name)
      continue;
    auto [end, error] = std::from_chars(size.data(), size.data() + size.size(),
                                        compression.size);
    if (error != std::errc() || end != size.data() + size.size() ||
        compression.size < info.least || compression.size > info.most)
      break;
    compression.scheme = info.scheme;
    return compression;
  }
  std::string expected(int8Sums);
  for (const SchemeInfo &info : schemes)
    expected += ", " + std::string(info.name) + ":N with N from " +
                std::to_string(info.least) + " to " + std::to_string(info.most);
  return Status(ExitCode::Usage,
                "is " + inQuotes(text, 40) + ", expected one of " + expected);
}

} // namespace kiln::support
