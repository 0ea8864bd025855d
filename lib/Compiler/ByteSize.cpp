//===- ByteSize.cpp - Parsing of byte sizes ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/ByteSize.h"

#include <cmath>

using namespace kiln;

static const std::pair<llvm::StringRef, int64_t> units[] = {
    {"GiB", int64_t(1) << 30},
    {"MiB", 1 << 20},
    {"KiB", 1 << 10},
    {"GB", 1'000'000'000},
    {"MB", 1'000'000},
    {"KB", 1'000},
    {"B", 1},
    {"", 1}};

Result<int64_t> kiln::parseByteSize(llvm::StringRef text,
                                    llvm::StringRef flag) {
  size_t digits = text.find_first_not_of("0123456789.");
  llvm::StringRef number = text.take_front(digits);
  llvm::StringRef unit = text.substr(number.size()).trim(' ');
  double value = 0;
  auto fail = [&](const char *why) {
    return Status(ExitCode::Usage,
                  flag.str() + " is '" + text.str() + "', expected " + why);
  };
  const char *form = "a size such as 8GiB or 300MB (units B, KiB, MiB, GiB, "
                     "KB, MB, GB)";
  if (text.starts_with("-"))
    return fail("a positive size such as 8GiB");
  if (number.empty() || number.getAsDouble(value))
    return fail(form);
  for (auto [name, bytes] : units)
    if (unit == name) {
      double total = value * double(bytes);
      if (!(total >= 1))
        return fail("a size of at least one byte");
      if (!(total < std::ldexp(1.0, 60)))
        return fail("a size below 1 EiB");
      return static_cast<int64_t>(total);
    }
  return fail(form);
}
