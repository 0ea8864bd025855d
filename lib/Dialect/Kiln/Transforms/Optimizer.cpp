//===- Optimizer.cpp - Parsing of --optimizer -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Optimizer.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

std::string kiln::optimizerNames() {
  ArrayRef<OptimizerRule> rules = optimizerRules();
  std::string names;
  for (auto [i, rule] : llvm::enumerate(rules)) {
    names += i == 0 ? "" : i + 1 == rules.size() ? " or " : ", ";
    names += rule.name;
  }
  return names;
}

double OptimizerSpec::get(StringRef key) const {
  for (auto [option, value] : llvm::zip_equal(rule->options, values))
    if (option.key == key)
      return value;
  llvm::report_fatal_error("the optimizer has no such option");
}

std::optional<OptimizerSpec> OptimizerSpec::parse(StringRef text,
                                                  std::string &error) {
  auto [name, options] = text.split(':');
  OptimizerSpec spec;
  for (const OptimizerRule &rule : optimizerRules())
    if (rule.name == name)
      spec.rule = &rule;
  if (!spec.rule) {
    error = "unknown optimizer '" + name.str() + "': use " + optimizerNames();
    return std::nullopt;
  }
  for (const OptimizerOption &option : spec.rule->options)
    spec.values.push_back(option.initial);

  SmallVector<StringRef> items;
  options.split(items, ',', -1, /*KeepEmpty=*/false);
  for (StringRef item : items) {
    StringRef key = item.split('=').first, text = item.split('=').second;
    if (key == "decay" && (text == "all" || text == "matrices")) {
      spec.decayAll = text == "all";
      continue;
    }
    const OptimizerOption *option =
        llvm::find_if(spec.rule->options,
                      [&](const OptimizerOption &o) { return o.key == key; });
    if (option == spec.rule->options.end()) {
      std::string keys = "decay=all";
      for (const OptimizerOption &o : spec.rule->options)
        keys += ", " + o.key.str();
      error = "optimizer '" + name.str() + "' has no option '" + key.str() +
              "': it has " + keys;
      return std::nullopt;
    }
    double value;
    if (text.getAsDouble(value) ||
        !(value >= option->low && value < option->high)) {
      error = "optimizer option '" + key.str() + "' is '" + text.str() +
              "', expected a number of at least " +
              std::to_string(static_cast<int>(option->low)) +
              (option->high == HUGE_VAL
                   ? ""
                   : " and below " +
                         std::to_string(static_cast<int>(option->high)));
      return std::nullopt;
    }
    spec.values[option - spec.rule->options.begin()] = value;
  }
  return spec;
}
