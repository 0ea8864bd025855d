//===- Lossy.cpp - Parsing of --lossy ---------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Lossy.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace kiln;
using llvm::StringRef;

std::optional<LossySpec> LossySpec::parse(StringRef text, std::string &error) {
  LossySpec spec;
  if (text.empty())
    return spec;
  llvm::SmallVector<StringRef> items;
  text.split(items, ',');
  for (StringRef item : items) {
    auto [name, value] = item.split(':');
    bool again = false;
    if (name == "fewbit") {
      again = spec.fewbit != 0;
      if (value.getAsInteger(10, spec.fewbit) || spec.fewbit < 1 ||
          spec.fewbit > 8) {
        error = "fewbit has '" + value.str() +
                "' bits, expected fewbit:B with B from 1 to 8";
        return std::nullopt;
      }
    } else if (name == "rmm") {
      again = spec.rmm != 0;
      if (value.getAsDouble(spec.rmm) || !(spec.rmm > 0 && spec.rmm < 1)) {
        error = "rmm keeps '" + value.str() +
                "' of the rows, expected rmm:RHO with RHO above 0 and below 1";
        return std::nullopt;
      }
    } else if (item == "q8" || item == "q4") {
      int64_t bits = item == "q8" ? 8 : 4;
      again = spec.bits == bits;
      if (spec.bits != 0 && !again) {
        error = "q8 and q4 are both given, expected one of them";
        return std::nullopt;
      }
      spec.bits = bits;
    } else if (name == "q8" || name == "q4") {
      error =
          name.str() + " has the value '" + value.str() + "', expected none";
      return std::nullopt;
    } else {
      error = "unknown technique '" + name.str() + "', expected " +
              LossySpec::expected.str();
      return std::nullopt;
    }
    if (again) {
      error = "'" + name.str() + "' is given twice, expected once";
      return std::nullopt;
    }
  }
  return spec;
}

int64_t kiln::sketchRows(int64_t length, double share) {
  int64_t rows = std::llround(share * double(length));
  return rows < length ? rows : 0;
}
