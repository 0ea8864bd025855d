//===- MachineCatalog.cpp - The machines that ship with kiln ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The files of share/kiln/machines are embedded, so that a plan does not depend
// on the installation directory.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Machine.h"
#include "kiln/Support/InputFile.h"
#include "kiln/Support/Messages.h"

using namespace kiln::support;
using namespace kiln;

namespace {
struct ShippedMachine {
  const char *name, *text;
};
} // namespace

static const ShippedMachine catalog[] = {
#include "ShippedMachines.inc"
};

std::vector<std::string> kiln::shippedMachines() {
  std::vector<std::string> names;
  for (const ShippedMachine &machine : catalog)
    names.push_back(machine.name);
  return names;
}

static bool endsIn(const std::string &text, const std::string &suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

Result<Machine> kiln::loadMachine(const std::string &name) {
  if (name.find('/') != std::string::npos || endsIn(name, ".json")) {
    // This limit is larger than any valid file; the parser has its own limit.
    auto text = readSmallFile(name, 1 << 21);
    if (!text.ok())
      return text.status();
    return parseMachine(*text, name);
  }
  std::string known;
  for (const ShippedMachine &machine : catalog) {
    if (name == machine.name)
      return parseMachine(machine.text, name);
    known += (known.empty() ? "" : ", ") + std::string(machine.name);
  }
  return Status(ExitCode::Usage, "--machine is " + inQuotes(name, 60) +
                                     ", expected a file that ends in .json or "
                                     "one of " +
                                     known);
}
