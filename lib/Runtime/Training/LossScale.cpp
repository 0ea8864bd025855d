//===- LossScale.cpp - Dynamic loss scaling -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Training/LossScale.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

using namespace kiln::support;

namespace kiln::runtime {

template <typename T> static bool parseNumber(std::string_view text, T &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool isLossScale(double scale) {
  int exponent = 0;
  return scale >= LossScale::smallest && scale <= LossScale::largest &&
         std::frexp(scale, &exponent) == 0.5;
}

Result<LossScaleOptions> LossScaleOptions::parse(const std::string &text) {
  LossScaleOptions options;
  std::set<std::string> given;
  std::string_view all = text;
  for (size_t begin = 0, end = 0; begin <= all.size(); begin = end + 1) {
    end = std::min(all.find(',', begin), all.size());
    std::string_view item = all.substr(begin, end - begin);
    auto refuse = [&](const std::string &expected) {
      return Status(ExitCode::Usage, "contains " +
                                         inQuotes(std::string(item), 40) +
                                         ", expected " + expected);
    };
    if (begin == 0) {
      if (!parseNumber(item, options.initial) || !isLossScale(options.initial))
        return refuse("the scale first, a power of two from 1 to 4294967296; "
                      "an example is 65536,window=2000,skips=20");
      continue;
    }
    size_t equals = std::min(item.find('='), item.size());
    std::string_view key = item.substr(0, equals);
    int64_t *value = key == "window"  ? &options.window
                     : key == "skips" ? &options.skips
                                      : nullptr;
    if (value && !given.insert(std::string(key)).second)
      return refuse("'" + std::string(key) + "' once");
    if (!value || equals == item.size() ||
        !parseNumber(item.substr(equals + 1), *value) || *value < 1)
      return refuse("window=N or skips=N with N of at least 1");
  }
  return options;
}

std::string LossScaleOptions::print() const {
  return std::to_string(static_cast<int64_t>(initial)) +
         ",window=" + std::to_string(window) +
         ",skips=" + std::to_string(skips);
}

void LossScale::advance(bool isFinite, const LossScaleOptions &options) {
  if (!isFinite) {
    scale = std::max(scale / 2, smallest);
    cleanSteps = 0;
    ++skipped;
    ++skippedInARow;
    return;
  }
  skippedInARow = 0;
  if (++cleanSteps < options.window)
    return;
  scale = std::min(scale * 2, largest);
  cleanSteps = 0;
}

bool LossScale::operator==(const LossScale &other) const {
  return scale == other.scale && cleanSteps == other.cleanSteps &&
         skipped == other.skipped && skippedInARow == other.skippedInARow;
}

} // namespace kiln::runtime
