//===- Report.cpp - Report of kiln-diff -----------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace kiln::support;

namespace kiln::runtime {

double Finding::share() const {
  // Integers and initial values are not rounded, so `rounding.eps` is 0, even
  // if the sensitivity is not.
  if (rounding.eps == 0)
    return std::numeric_limits<double>::infinity();
  if (difference.norm == 0)
    // The norm is 0 although bits differ: the only differences are signs of
    // zeros.
    return 0;
  double share = difference.norm / rounding.bound();
  return share >= 0 ? share : std::numeric_limits<double>::infinity();
}

bool StepFindings::explained() const {
  auto isExplained = [](const Finding &finding) { return finding.explained(); };
  return std::all_of(numbers.begin(), numbers.end(), isExplained) &&
         std::all_of(tensors.begin(), tensors.end(), isExplained);
}

const Finding &StepFindings::worst() const {
  const Finding *worst = nullptr;
  for (const std::vector<Finding> *list : {&numbers, &tensors})
    for (const Finding &finding : *list)
      if (!worst || finding.share() > worst->share())
        worst = &finding;
  return *worst;
}

double longestSumOf(const TrainedModel &model) {
  int64_t longest = std::max(model.batch * model.length, model.vocabulary);
  for (const TrainedTensor &tensor : model.tensors)
    for (int64_t extent : tensor.shape)
      longest = std::max(longest, extent);
  return double(longest);
}

static std::string format(const char *pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

static std::string precise(double value) { return format("%.17g", value); }
static std::string rough(double value) { return format("%.2g", value); }

std::string titleOf(const TrainedTensor &tensor) {
  if (tensor.role == "number")
    return tensor.name;
  std::string role =
      tensor.role == "optimizer" ? "optimizer state" : tensor.role;
  size_t colon = tensor.role == "gradient" ? tensor.name.find(':') + 1 : 0;
  return role + " " + inQuotes(tensor.name.substr(colon));
}

/// Formats the indices [row, column, ...] of the element at position `element`
/// in row-major order.
static std::string placeOf(const std::vector<int64_t> &shape, int64_t element) {
  std::vector<int64_t> place(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    place[i] = element % std::max<int64_t>(shape[i], 1);
    element /= std::max<int64_t>(shape[i], 1);
  }
  return shapeText(place);
}

static std::string ulpText(uint64_t ulps) {
  return std::to_string(ulps) + (ulps == 1 ? " ULP" : " ULPs");
}

static std::string judgement(const Finding &finding) {
  const RoundingTerms &terms = finding.rounding;
  if (terms.eps == 0)
    return "  not explained by rounding: initial values and integers are not "
           "rounded\n";
  std::string text = "  rounding bound: " + rough(terms.bound()) +
                     " = 8 (sqrt(L) eps |x| + s), L " +
                     format("%.0f", terms.longestSum) + ", eps " +
                     rough(terms.eps) + ", |x| " + rough(terms.norm) + ", s " +
                     rough(terms.sensitivity) + "\n";
  if (finding.explained())
    return text + "  explained by rounding: " + rough(finding.share()) +
           " of the bound\n";
  return text + "  not explained by rounding: " + rough(finding.share()) +
         " times the bound\n";
}

static std::string numberText(const Finding &finding) {
  const TensorDifference &difference = finding.difference;
  return finding.tensor.name + " differs: A " + precise(difference.firstA) +
         ", B " + precise(difference.firstB) + ": difference " +
         rough(difference.norm) + ", " + rough(difference.relative()) +
         " relative\n" + judgement(finding);
}

static std::string tensorText(const Finding &finding) {
  const TensorDifference &difference = finding.difference;
  const TrainedTensor &tensor = finding.tensor;
  return titleOf(tensor) + " " + std::string(infoOf(tensor.type).fileName) +
         " " + shapeText(tensor.shape) + "\n  first differing element " +
         std::to_string(difference.first) + " " +
         placeOf(tensor.shape, difference.first) + ": A " +
         precise(difference.firstA) + ", B " + precise(difference.firstB) +
         ", " + ulpText(difference.firstUlps) + "\n  " +
         std::to_string(difference.different) + " of " +
         std::to_string(difference.elements) + " elements differ, by at most " +
         rough(difference.maxAbsolute) + " and " + ulpText(difference.maxUlps) +
         "; in norm by " + rough(difference.norm) + ", " +
         rough(difference.relative()) + " relative\n" + judgement(finding);
}

static std::string opText(const StepFindings &findings) {
  if (!findings.opsWatched)
    return "";
  if (!findings.op)
    return "no op that both executables have differs\n";
  const OpDifference &op = *findings.op;
  return "first differing op that both have: " + op.a.kind + " " +
         inQuotes(op.a.name) + ", result " + inQuotes(op.a.buffer) +
         ", after " + std::to_string(op.equalBefore) + " equal results\n";
}

std::string reportOf(const StepFindings &findings) {
  std::string text =
      findings.step == 0
          ? std::string("different before the first step\n")
          : "different at step " + std::to_string(findings.step) + "\n";
  for (const Finding &number : findings.numbers)
    text += numberText(number);
  size_t count = findings.tensors.size();
  if (count > 0)
    text += "first of " + std::to_string(count) + " differing tensors (" +
            std::to_string(findings.compared) +
            " compared): " + tensorText(findings.tensors.front());
  if (findings.step > 0)
    text += opText(findings);
  const Finding &worst = findings.worst();
  if (!findings.explained() && count > 1 &&
      worst.tensor.name != findings.tensors.front().tensor.name)
    text +=
        "largest difference relative to its bound: " + titleOf(worst.tensor) +
        ", " + rough(worst.share()) + " times the bound\n";
  return text;
}

} // namespace kiln::runtime
