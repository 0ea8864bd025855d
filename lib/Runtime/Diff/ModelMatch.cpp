//===- ModelMatch.cpp - Compatibility of two executables ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelMatch.h"

#include "kiln/Support/Messages.h"

#include <unordered_map>

using namespace kiln::support;

namespace kiln::runtime {

static Status unlike(const std::string &what, const std::string &a,
                     const std::string &b, const char *advice) {
  return Status::badInput("executables A and B cannot be compared: " + what +
                          " is " + a + " in A and " + b + " in B; " + advice);
}

static constexpr const char *compileAlike =
    "compile both from one model, with the same shapes and optimizer";

static std::string typeText(const TrainedTensor &tensor) {
  return std::string(infoOf(tensor.type).fileName) + " " +
         shapeText(tensor.shape);
}

Result<std::vector<TensorPair>> matchModels(const TrainedModel &a,
                                            const TrainedModel &b) {
  auto quantity = [](const char *name, int64_t x, int64_t y,
                     const char *advice) {
    return x == y ? Status()
                  : unlike(name, std::to_string(x), std::to_string(y), advice);
  };
  if (a.type != b.type)
    return unlike("the model", inQuotes(a.type), inQuotes(b.type),
                  compileAlike);
  constexpr const char *sameSteps = "give both the same steps";
  for (Status status :
       {quantity("the vocabulary", a.vocabulary, b.vocabulary, compileAlike),
        quantity("the batch", a.batch, b.batch, compileAlike),
        quantity("the sequence length", a.length, b.length, compileAlike),
        quantity("the first step", a.firstStep, b.firstStep, sameSteps),
        quantity("the last step", a.lastStep, b.lastStep, sameSteps)})
    if (!status.ok())
      return status;
  if (a.firstStep > a.lastStep)
    return Status(ExitCode::Usage,
                  "there is no step to compare: the next step is " +
                      std::to_string(a.firstStep) + ", --steps is " +
                      std::to_string(a.lastStep));

  std::unordered_map<std::string, size_t> names;
  for (size_t i = 0; i < b.tensors.size(); ++i)
    names.emplace(b.tensors[i].name, i);
  std::vector<TensorPair> pairs;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const TrainedTensor &tensor = a.tensors[i];
    auto found = names.find(tensor.name);
    if (found == names.end()) {
      if (!tensor.isState())
        continue;
      return unlike(tensor.role + " " + inQuotes(tensor.name), typeText(tensor),
                    "missing", compileAlike);
    }
    const TrainedTensor &other = b.tensors[found->second];
    if (tensor.type != other.type || tensor.shape != other.shape)
      return unlike(tensor.role + " " + inQuotes(tensor.name), typeText(tensor),
                    typeText(other), compileAlike);
    pairs.push_back({i, found->second});
    names.erase(found);
  }
  for (const TrainedTensor &tensor : b.tensors)
    if (tensor.isState() && names.count(tensor.name))
      return unlike(tensor.role + " " + inQuotes(tensor.name), "missing",
                    typeText(tensor), compileAlike);
  return pairs;
}

std::vector<std::string> differentBuilds(const TrainedModel &a,
                                         const TrainedModel &b) {
  std::vector<std::string> lines;
  auto compare = [&](const std::string &name, const std::string &x,
                     const std::string &y) {
    // Values from the interpreter are empty, because the interpreter has no
    // compile flags. Empty values are not compared.
    if (x != y && !x.empty() && !y.empty())
      lines.push_back(name + ": A " + printable(x) + ", B " + printable(y));
  };
  for (auto &[name, value] : a.build)
    if (auto other = b.build.find(name); other != b.build.end())
      compare(name, value, other->second);
  compare("library", a.library, b.library);
  return lines;
}

} // namespace kiln::runtime
