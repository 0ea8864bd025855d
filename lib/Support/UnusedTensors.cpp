//===- UnusedTensors.cpp - Unused tensors of weight files -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/UnusedTensors.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Messages.h"
#include <algorithm>
#include <cstring>

using namespace kiln::support;

namespace {

/// A tensor of the file that duplicates a tensor of the model.
struct Copy {
  const TensorInfo *tensor;
  const TensorInfo *original;
};

struct Unused {
  std::vector<Copy> copies;
  /// Names of the other unused tensors, without those that match a pattern of
  /// UnusedTensorRules::known.
  std::vector<std::string> others;
};

bool contains(const std::vector<std::string> &names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

} // namespace

bool kiln::support::matchesPattern(std::string_view name,
                                   std::string_view pattern) {
  auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
  while (!pattern.empty()) {
    if (pattern.front() == '*') {
      if (name.empty() || !isDigit(name.front()))
        return false;
      while (!name.empty() && isDigit(name.front()))
        name.remove_prefix(1);
    } else {
      if (name.empty() || name.front() != pattern.front())
        return false;
      name.remove_prefix(1);
    }
    pattern.remove_prefix(1);
  }
  return name.empty();
}

static Unused findUnused(const ModelWeights &weights,
                         const std::vector<ExpectedTensor> &expected,
                         const std::vector<const TensorInfo *> &found,
                         const std::vector<std::string> &known) {
  Unused unused;
  std::vector<std::string> used;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    used.push_back(found[i]->name);
    for (const std::string &name : expected[i].copies)
      if (const TensorInfo *copy = weights.find(name); copy && copy != found[i])
        unused.copies.push_back({copy, found[i]});
  }
  for (const Copy &copy : unused.copies)
    used.push_back(copy.tensor->name);
  std::sort(used.begin(), used.end());
  for (const std::string &name : weights.names())
    if (!std::binary_search(used.begin(), used.end(), name) &&
        std::none_of(known.begin(), known.end(), [&](const auto &pattern) {
          return matchesPattern(name, pattern);
        }))
      unused.others.push_back(name);
  return unused;
}

std::vector<std::string>
kiln::support::findUnusedTensors(const ModelWeights &weights,
                                 const std::vector<ExpectedTensor> &expected,
                                 const std::vector<const TensorInfo *> &found,
                                 const std::vector<std::string> &known) {
  Unused unused = findUnused(weights, expected, found, known);
  for (const Copy &copy : unused.copies)
    if (copy.tensor->shape != copy.original->shape)
      unused.others.push_back(copy.tensor->name);
  return unused.others;
}

/// Returns the index of the first element that differs between two tensors of
/// equal shape, or -1.
static Result<int64_t> firstDifference(const ModelWeights &weights,
                                       const TensorInfo &a,
                                       const TensorInfo &b) {
  // Compare elements as f64, which represents every weight exactly.
  for (const TensorInfo *tensor : {&a, &b})
    if (!isConvertible(tensor->type, ElementType::F64))
      return 0;
  constexpr int64_t chunk = 1 << 16;
  std::vector<double> left(std::min(a.elements, chunk)), right(left.size());
  for (int64_t first = 0; first < a.elements; first += chunk) {
    int64_t count = std::min(chunk, a.elements - first);
    for (auto [tensor, values] :
         {std::pair(&a, left.data()), std::pair(&b, right.data())})
      if (Status status = weights.readElements(tensor->name, first, count,
                                               ElementType::F64, values);
          !status.ok())
        return status;
    for (int64_t i = 0; i < count; ++i)
      // Treat NaNs with equal bits as equal.
      if (left[i] != right[i] &&
          std::memcmp(&left[i], &right[i], sizeof(double)) != 0)
        return first + i;
  }
  return -1;
}

static Status refuseCopy(const ModelWeights &weights, const Copy &copy,
                         const std::string &difference) {
  const std::string &name = copy.tensor->name;
  return Status::badInput(
      "'" + weights.path() + "': the model has one tensor for " +
      inQuotes(copy.original->name) + " and " + inQuotes(name) +
      ", which are tied, but the two tensors of the file differ: " +
      difference +
      "; set tie_word_embeddings to false and compile again to train both, or "
      "pass --init-ignore=" +
      printable(name) + " to initialize both from " +
      inQuotes(copy.original->name));
}

static Status checkCopy(const ModelWeights &weights, const Copy &copy) {
  if (copy.tensor->shape != copy.original->shape)
    return refuseCopy(weights, copy,
                      "shapes " + shapeText(copy.original->shape) + " and " +
                          shapeText(copy.tensor->shape));
  Result<int64_t> difference =
      firstDifference(weights, *copy.original, *copy.tensor);
  if (!difference.ok())
    return difference.status();
  if (*difference < 0)
    return Status();
  return refuseCopy(weights, copy,
                    "first in element " + std::to_string(*difference));
}

static Status checkIgnored(const ModelWeights &weights,
                           const std::vector<const TensorInfo *> &found,
                           const std::vector<std::string> &ignored) {
  for (const std::string &name : ignored) {
    const TensorInfo *tensor = weights.find(name);
    if (!tensor)
      return Status(ExitCode::Usage, "--init-ignore names " + inQuotes(name) +
                                         ", but '" + weights.path() +
                                         "' has no such tensor");
    if (std::find(found.begin(), found.end(), tensor) != found.end())
      return Status(ExitCode::Usage, "--init-ignore names " + inQuotes(name) +
                                         ", which the model needs");
  }
  return Status();
}

Status
kiln::support::checkUnusedTensors(const ModelWeights &weights,
                                  const std::vector<ExpectedTensor> &expected,
                                  const std::vector<const TensorInfo *> &found,
                                  const UnusedTensorRules &rules) {
  if (Status status = checkIgnored(weights, found, rules.ignored); !status.ok())
    return status;
  Unused unused = findUnused(weights, expected, found, rules.known);
  for (const Copy &copy : unused.copies)
    if (!contains(rules.ignored, copy.tensor->name))
      if (Status status = checkCopy(weights, copy); !status.ok())
        return status;

  std::vector<std::string> refused;
  for (const std::string &name : unused.others)
    if (!contains(rules.ignored, name))
      refused.push_back(name);
  if (refused.empty())
    return Status();
  std::string flag;
  for (const std::string &name : refused)
    flag += (flag.empty() ? "" : ",") + printable(name);
  std::string others;
  if (refused.size() > 1)
    others = " and " + std::to_string(refused.size() - 1) + " others";
  return Status::badInput(
      "'" + weights.path() + "' holds tensor " + inQuotes(refused.front()) +
      others +
      ", which the model does not use: check that the file belongs to this "
      "model; if it does, pass --init-ignore=" +
      flag);
}
