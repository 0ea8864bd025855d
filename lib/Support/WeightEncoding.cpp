//===- WeightEncoding.cpp - Encodings of frozen weights -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/WeightEncoding.h"
#include "kiln/Support/Messages.h"

#include <charconv>
#include <set>

using namespace kiln::support;
using namespace kiln;

int64_t kiln::support::bytesOf(const WeightLayout &layout) {
  return std::visit([](const auto &layout) { return layout.bytes; }, layout);
}

void kiln::support::decodeWeight(const char *bytes, const WeightLayout &layout,
                                 int64_t first, int64_t count, float *to) {
  if (auto *nf4 = std::get_if<Nf4Layout>(&layout))
    return decodeNf4(bytes, *nf4, first, count, to);
  decodeInt8(bytes, std::get<Int8Layout>(layout), first, count, to);
}

/// Sets the option `item`, such as "outliers=4".
static Status setOption(std::string_view item, WeightEncodingChoice &choice) {
  auto fail = [&](const std::string &expected) {
    return Status(ExitCode::Usage,
                  "has " + inQuotes(item, 40) + ", expected " + expected);
  };
  std::size_t equals = item.find('=');
  std::string_view name = item.substr(0, equals);
  std::string_view value =
      equals == item.npos ? std::string_view() : item.substr(equals + 1);
  if (name == "outliers") {
    const char *end = value.data() + value.size();
    auto [stop, error] = std::from_chars(value.data(), end, choice.outliers);
    if (error != std::errc() || stop != end || choice.outliers < 0)
      return fail("outliers=N with an integer N of at least 0");
    return Status();
  }
  if (name == "scales") {
    if (value != "block" && value != "row")
      return fail("scales=block or scales=row");
    choice.rowScales = value == "row";
    return Status();
  }
  return fail("outliers=N, scales=block or scales=row");
}

Result<WeightEncodingChoice>
kiln::support::parseWeightEncoding(std::string_view text) {
  auto fail = [](const std::string &message) {
    return Status(ExitCode::Usage, message);
  };
  std::size_t colon = text.find(':');
  std::string_view name = text.substr(0, colon);
  if (name != "nf4" && name != "int8")
    return fail("is " + inQuotes(text, 40) + ", expected " + weightEncodings);
  WeightEncodingChoice choice;
  choice.isInt8 = name == "int8";
  if (colon == text.npos)
    return choice;
  if (!choice.isInt8)
    return fail("is " + inQuotes(text, 40) +
                ", but nf4 has no options; int8 has outliers=N and "
                "scales=block|row");
  std::string_view rest = text.substr(colon + 1);
  std::set<std::string_view> seen;
  while (true) {
    std::size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    if (Status status = setOption(item, choice); !status.ok())
      return status;
    if (std::string_view option = item.substr(0, item.find('='));
        !seen.insert(option).second)
      return fail("has " + inQuotes(option, 40) + " twice, expected it once");
    if (comma == rest.npos)
      return choice;
    rest.remove_prefix(comma + 1);
  }
}
