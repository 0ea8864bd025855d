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

std::optional<ElementType> StateTypes::momentType(unsigned slot) const {
  if (moments.empty())
    return std::nullopt;
  return moments[moments.size() == 1 ? 0 : slot];
}

bool StateTypes::isEncoded(unsigned slot) const {
  return encodedMoments >> (moments.size() == 1 ? 0 : slot) & 1;
}

/// The named recipes, each with the list of classes and types that it stands
/// for.
static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> recipes[] =
    {
        {"fp32", ""},
        {"bf16-gradients", "gradients:bf16,moments:bf16/f32"},
        {"bf16-adam", "parameters:bf16,gradients:bf16,moments:f32,master:f32"},
        {"fp16-adam", "parameters:f16,gradients:f16,moments:f32,master:f32"},
};

namespace {

/// A class of states, and the types in which it can be stored.
struct Class {
  llvm::StringLiteral name;
  llvm::SmallVector<ElementType, 3> types;
};

} // namespace

/// The classes of states, in the order in which messages list them. Squares of
/// gradients underflow in f16, so no moment is stored in f16.
static llvm::ArrayRef<Class> classes() {
  using T = ElementType;
  static const Class all[] = {
      {"parameters", {T::BF16, T::F16}},
      {"gradients", {T::F32, T::BF16, T::F16}},
      {"moments", {T::F32, T::BF16}},
      {"master", {T::F32}},
  };
  return all;
}

/// Returns the names of the types of a class as an enumeration such as "f32 or
/// bf16".
static std::string typeNames(const Class &item) {
  llvm::SmallVector<std::string_view> types;
  for (ElementType type : item.types)
    types.push_back(support::infoOf(type).name);
  if (item.name == "moments")
    types.push_back("dynamic8");
  std::string names;
  for (auto [i, name] : llvm::enumerate(types)) {
    names += i == 0 ? "" : i + 1 == types.size() ? " or " : ", ";
    names += name;
  }
  return names;
}

std::optional<StateTypes> StateTypes::parse(StringRef text,
                                            const OptimizerRule &rule,
                                            std::string &error) {
  StateTypes types;
  auto fail = [&](const llvm::Twine &message) {
    error = message.str();
    return std::nullopt;
  };
  for (auto [name, meaning] : recipes)
    if (text == name)
      text = meaning;
  if (text.empty())
    return types;
  llvm::SmallVector<StringRef> items;
  text.split(items, ',');
  llvm::SmallVector<ElementType, 2> given[4];
  for (StringRef item : items) {
    auto [name, value] = item.split(':');
    const Class *found =
        llvm::find_if(classes(), [className = name](const Class &other) {
          return other.name == className;
        });
    if (found == classes().end())
      return fail("lists '" + item +
                  "', expected parameters:TYPE, gradients:TYPE, moments:TYPE "
                  "or master:f32; to use a recipe, give only its name: fp32, "
                  "bf16-gradients, bf16-adam or fp16-adam");
    auto &list = given[found - classes().begin()];
    if (!list.empty())
      return fail("gives '" + name + "' twice, expected once");
    llvm::SmallVector<StringRef> names;
    value.split(names, '/');
    for (StringRef typeName : names) {
      bool isEncoded = name == "moments" && typeName == "dynamic8";
      if (isEncoded)
        types.encodedMoments |= 1u << list.size();
      std::optional<ElementType> type =
          isEncoded
              ? ElementType::F32
              : support::elementTypeNamed({typeName.data(), typeName.size()});
      if (!type || !llvm::is_contained(found->types, *type))
        return fail("stores " + name + " in '" + typeName + "', expected " +
                    typeNames(*found));
      list.push_back(*type);
    }
    bool isMoments = name == "moments";
    if (!isMoments && list.size() > 1)
      return fail("gives " + llvm::Twine(list.size()) + " types of " + name +
                  ", expected one");
    if (isMoments && rule.slots.empty())
      return fail("gives a type of moments, but " + rule.name +
                  " has no moments");
    if (isMoments && list.size() > 1 && list.size() != rule.slots.size())
      return fail("gives " + llvm::Twine(list.size()) +
                  " types of moments, but " + rule.name + " has " +
                  llvm::Twine(rule.slots.size()));
  }
  auto &[parameters, gradients, moments, master] = given;
  if (!parameters.empty() && master.empty())
    return fail("stores parameters in 16 bits without a master copy, so "
                "rounding would lose small updates; add master:f32");
  if (parameters.empty() && !master.empty())
    return fail("gives the type of master copies, but parameters are stored in "
                "f32; add parameters:bf16 or parameters:f16");
  if (!parameters.empty())
    types.parameters = parameters.front();
  if (!gradients.empty())
    types.gradients = gradients.front();
  types.moments = moments;
  return types;
}

std::string StateTypes::checkPrecision(llvm::StringRef precision) const {
  auto nameOf = [](ElementType type) {
    return std::string(support::infoOf(type).name);
  };
  std::optional<ElementType> low =
      support::lowPrecisionNamed({precision.data(), precision.size()});
  if (parameters && parameters != low)
    return "stores parameters in " + nameOf(*parameters) +
           ", which needs --precision=" +
           std::string(support::infoOf(*parameters).precision) +
           ", but it is " + precision.str();
  if (gradients == ElementType::F16 && low != ElementType::F16)
    return "stores gradients in f16, in which small gradients are lost without "
           "the scaling of --precision=fp16, but it is " +
           precision.str();
  return "";
}
