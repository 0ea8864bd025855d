//===- StateTypes.cpp - Parsing of --states ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/StateTypes.h"

#include "kiln/Dialect/Kiln/Transforms/Optimizer.h"

using namespace kiln;
using llvm::StringRef;

/// Parses the name of a type that gradients and moments may have. Squares of
/// gradients underflow in f16.
static std::optional<ElementType> parseType(StringRef name) {
  if (name == "f32")
    return ElementType::F32;
  if (name == "bf16")
    return ElementType::BF16;
  return std::nullopt;
}

std::optional<ElementType> StateTypes::momentType(unsigned slot) const {
  if (moments.empty())
    return std::nullopt;
  return moments[moments.size() == 1 ? 0 : slot];
}

std::optional<StateTypes> StateTypes::parse(StringRef text,
                                            const OptimizerRule &rule,
                                            std::string &error) {
  StateTypes types;
  if (text.empty())
    return types;
  auto fail = [&](const llvm::Twine &message) {
    error = message.str();
    return std::nullopt;
  };
  llvm::SmallVector<StringRef> items;
  text.split(items, ',');
  for (StringRef item : items) {
    auto [name, value] = item.split(':');
    if (name != "gradients" && name != "moments")
      return fail("lists '" + item +
                  "', expected gradients:TYPE, "
                  "moments:TYPE or both");
    if (name == "gradients" ? types.gradients.has_value()
                            : !types.moments.empty())
      return fail("gives '" + name + "' twice, expected once");
    llvm::SmallVector<StringRef> names;
    value.split(names, '/');
    for (StringRef typeName : names) {
      std::optional<ElementType> type = parseType(typeName);
      if (!type)
        return fail("stores " + name + " in '" + typeName +
                    "', expected f32 or bf16");
      if (name == "moments")
        types.moments.push_back(*type);
      else
        types.gradients = type;
    }
    if (name == "gradients" && names.size() > 1)
      return fail("gives " + llvm::Twine(names.size()) +
                  " types of gradients, expected one");
    if (name == "moments" && rule.slots.empty())
      return fail("gives a type of moments, and " + rule.name +
                  " has no moments");
    if (name == "moments" && names.size() > 1 &&
        names.size() != rule.slots.size())
      return fail("gives " + llvm::Twine(names.size()) +
                  " types of moments, and " + rule.name + " has " +
                  llvm::Twine(rule.slots.size()));
  }
  return types;
}
