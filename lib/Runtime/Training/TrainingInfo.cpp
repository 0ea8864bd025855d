//===- TrainingInfo.cpp - TrainingInfo as JSON and as text ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingInfo.h"

#include "kiln/Support/GradientCompression.h"
#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

using namespace kiln::abi;
using namespace kiln::support;

namespace kiln::runtime {

using Json = nlohmann::json;

/// Upper bound of list lengths; a longer list indicates a damaged file.
static constexpr std::size_t mostEntries = 1000;

/// Returns the size of a list, or fails if the size exceeds mostEntries.
static std::size_t sizeOf(const Node &list) {
  std::size_t size = list.size();
  if (size <= mostEntries)
    return size;
  list.fail("has " + std::to_string(size) + " entries, expected at most " +
            std::to_string(mostEntries));
  return 0;
}

/// Reads a name. Its length is limited, because messages contain it.
static std::string readName(const Node &node) {
  std::string name = node.text();
  if (!node.failed() && (name.empty() || name.size() > 64))
    node.fail("is " + inQuotes(name) + ", expected 1 to 64 characters");
  return name;
}

static UpdateRule readUpdate(const Node &node) {
  UpdateRule rule;
  rule.optimizer = readName(node.at("name"));
  Node options = node.at("options");
  if (!options.json().is_object())
    options.fail("is not an object");
  else if (options.json().size() > mostEntries)
    options.fail("has more than 1000 members");
  else
    for (auto &[name, value] : options.json().items()) {
      if (!value.is_number())
        options.fail("has a member " + inQuotes(name) +
                     " that is not a number");
      else
        rule.options[name] = value.get<double>();
    }
  Node decay = node.at("decay");
  rule.decay = decay.text();
  if (!node.failed() && rule.decay != "matrices" && rule.decay != "all" &&
      rule.decay != "vectors")
    decay.fail("is " + inQuotes(rule.decay) +
               ", expected matrices, all or vectors");
  return rule;
}

static std::vector<double> readProbabilities(const Node &list) {
  std::vector<double> values;
  for (std::size_t i = 0, size = sizeOf(list); i < size; ++i) {
    Node element = list.element(i);
    double value = element.real();
    if (!element.failed() && !(value >= 0 && value <= 1))
      element.fail("is " + numberText(value) + ", expected 0 to 1");
    values.push_back(value);
  }
  return values;
}

TrainingInfo readTrainingInfo(const Node &object) {
  TrainingInfo info;
  Node updates = object.at("optimizer");
  for (std::size_t i = 0, size = sizeOf(updates); i < size; ++i)
    info.updates.push_back(readUpdate(updates.element(i)));
  std::sort(info.updates.begin(), info.updates.end());
  Node dropout = object.at("dropout");
  info.dropout = readProbabilities(dropout.at("activations"));
  info.attentionDropout = readProbabilities(dropout.at("attention"));
  Node lossy = object.at("lossy");
  for (std::size_t i = 0, size = sizeOf(lossy); i < size; ++i) {
    Node entry = lossy.element(i);
    info.lossy[readName(entry.at("encoding"))] =
        entry.at("residuals").integer(1);
  }
  return info;
}

void addTrainingInfo(const TrainingInfo &info, Json &object) {
  Json updates = Json::array(), lossy = Json::array();
  for (const UpdateRule &rule : info.updates)
    updates.push_back({{"name", rule.optimizer},
                       {"options", Json(rule.options)},
                       {"decay", rule.decay}});
  for (auto &[encoding, residuals] : info.lossy)
    lossy.push_back({{"encoding", encoding}, {"residuals", residuals}});
  object["optimizer"] = std::move(updates);
  object["dropout"] = {{"activations", info.dropout},
                       {"attention", info.attentionDropout}};
  object["lossy"] = std::move(lossy);
}

std::string numberText(double value) {
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value)
      break;
  }
  return text;
}

/// Appends `part` to a comma-separated list.
static void append(std::string &list, const std::string &part) {
  list += (list.empty() ? "" : ", ") + part;
}

std::string optimizerText(const TrainingInfo &info) {
  std::string text;
  for (const UpdateRule &rule : info.updates) {
    std::string options;
    for (auto &[name, value] : rule.options)
      append(options, printable(name) + "=" + numberText(value));
    if (rule.decay != "matrices")
      append(options, "decay=" + rule.decay);
    append(text, printable(rule.optimizer) +
                     (options.empty() ? "" : " (" + options + ")"));
  }
  return text.empty() ? "none" : text;
}

static std::string listText(const std::vector<double> &values) {
  std::string text;
  for (double value : values)
    text += (text.empty() ? "" : " and ") + numberText(value);
  return text;
}

std::string dropoutText(const TrainingInfo &info) {
  std::string text = listText(info.dropout);
  if (info.attentionDropout != info.dropout)
    append(text, "of attention " + (info.attentionDropout.empty()
                                        ? "none"
                                        : listText(info.attentionDropout)));
  return text.empty() ? "none" : text;
}

std::string lossyText(const TrainingInfo &info) {
  std::string text;
  for (auto &[encoding, residuals] : info.lossy)
    append(text, printable(encoding) + " of " + std::to_string(residuals) +
                     (isOfGradients(encoding) ? " gradients" : " residuals"));
  return text.empty() ? "none" : text;
}

/// Returns the optimizers of all update rules. Optimizers that use the same
/// states are represented by one name: adam by adamw, and nesterov by momentum.
static std::set<std::string> stateKinds(const TrainingInfo &info) {
  std::set<std::string> kinds;
  for (const UpdateRule &rule : info.updates)
    kinds.insert(rule.optimizer == "adam"       ? "adamw"
                 : rule.optimizer == "nesterov" ? "momentum"
                                                : rule.optimizer);
  return kinds;
}

bool haveSameStates(const TrainingInfo &then, const TrainingInfo &now) {
  return stateKinds(then) == stateKinds(now);
}

} // namespace kiln::runtime
