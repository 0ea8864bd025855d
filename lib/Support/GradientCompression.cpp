//===- GradientCompression.cpp - Compressed sums of gradients -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/GradientCompression.h"

#include "kiln/Support/Messages.h"

#include <charconv>

using namespace kiln::support;

static constexpr std::string_view powerSgd = "powersgd", int8Sums = "int8";

bool kiln::support::isPowerSgd(std::string_view encoding) {
  return encoding.substr(0, encoding.find(':')) == powerSgd;
}

bool kiln::support::isOfGradients(std::string_view encoding) {
  return encoding == int8Sums || isPowerSgd(encoding);
}

Result<GradientCompression>
kiln::support::parseGradientCompression(std::string_view text) {
  GradientCompression compression;
  compression.isInt8 = text == int8Sums;
  if (text.empty() || compression.isInt8)
    return compression;
  std::size_t colon = text.find(':');
  std::string_view rank =
      colon == text.npos ? std::string_view() : text.substr(colon + 1);
  auto [end, error] =
      std::from_chars(rank.data(), rank.data() + rank.size(), compression.rank);
  if (text.substr(0, colon) != powerSgd || rank.empty() ||
      error != std::errc() || end != rank.data() + rank.size() ||
      compression.rank < 1 || compression.rank > maxCompressionRank)
    return Status(
        ExitCode::Usage,
        "is " + inQuotes(text, 40) +
            ", expected int8, or powersgd:R with a rank R from 1 to " +
            std::to_string(maxCompressionRank) + ", such as powersgd:4");
  return compression;
}
