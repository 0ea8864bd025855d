//===- Optimizer.cpp - The optimizer a user names ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Optimizer.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace kiln;
using llvm::StringRef;

namespace {

/// A numeric option: where it goes and the open or closed range it must be in.
struct Option {
  StringRef key;
  double *value;
  double low, high; ///< low <= value < high
};

} // namespace

std::optional<OptimizerSpec> OptimizerSpec::parse(StringRef text,
                                                  std::string &error) {
  auto [name, options] = text.split(':');
  OptimizerSpec spec;
  llvm::SmallVector<Option, 5> known;
  auto allow = [&](StringRef key, double &value, double low, double high) {
    known.push_back({key, &value, low, high});
  };
  allow("weight_decay", spec.weightDecay, 0, HUGE_VAL);
  if (name == "adamw" || name == "adam") {
    spec.kind = Kind::Adam;
    spec.decoupled = name == "adamw";
    spec.weightDecay = spec.decoupled ? 0.01 : 0.0;
    allow("beta1", spec.beta1, 0, 1);
    allow("beta2", spec.beta2, 0, 1);
    allow("eps", spec.eps, 0, HUGE_VAL);
  } else if (name == "momentum" || name == "nesterov") {
    spec.kind = Kind::Momentum;
    spec.nesterov = name == "nesterov";
    allow("momentum", spec.momentum, 0, 1);
  } else if (name == "sgd") {
    spec.kind = Kind::Sgd;
  } else {
    error = "unknown optimizer '" + name.str() +
            "': use adamw, adam, sgd, momentum or nesterov";
    return std::nullopt;
  }

  llvm::SmallVector<StringRef> items;
  options.split(items, ',', -1, /*KeepEmpty=*/false);
  for (StringRef item : items) {
    StringRef key = item.split('=').first, text = item.split('=').second;
    if (key == "decay" && (text == "all" || text == "matrices")) {
      spec.decayAll = text == "all";
      continue;
    }
    const Option *option =
        llvm::find_if(known, [&](const Option &o) { return o.key == key; });
    if (option == known.end()) {
      std::string keys = "decay=all";
      for (const Option &o : known)
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
    *option->value = value;
  }
  return spec;
}
