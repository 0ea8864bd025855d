//===- Chain.cpp - Comparison and checks of chains --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A chain that passes verifyChain() can be planned without overflow: every sum
// of sizes computed by the planner is below 2^62.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Chain.h"

#include <cmath>
#include <cstdlib>

using namespace kiln;

bool StageOption::operator==(const StageOption &other) const {
  return saved == other.saved && hostBytes == other.hostBytes &&
         forward == other.forward && backward == other.backward &&
         forwardWorkspace == other.forwardWorkspace &&
         backwardWorkspace == other.backwardWorkspace && lossy == other.lossy;
}

bool Stage::operator==(const Stage &other) const {
  return input == other.input && inputGradient == other.inputGradient &&
         fastForward == other.fastForward &&
         fastForwardWorkspace == other.fastForwardWorkspace &&
         options == other.options;
}

/// Limits on a single size and on the number of stages. Planning a chain with
/// more stages would take hours.
static constexpr int64_t maxBytes = int64_t(1) << 42;
static constexpr size_t maxStages = 2048;

static bool isSize(int64_t bytes) { return bytes >= 0 && bytes <= maxBytes; }
static bool isWorkspace(int64_t bytes) { return std::abs(bytes) <= maxBytes; }
static bool isTime(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

static std::string describe(const char *what, size_t stage) {
  return "stage " + std::to_string(stage) + ": " + what;
}

std::string kiln::verifyChain(const Chain &chain) {
  if (chain.stages.empty() || chain.stages.size() > maxStages)
    return "a chain needs 1 to 2048 stages, got " +
           std::to_string(chain.stages.size());
  if (!isSize(chain.output) || !isSize(chain.outputGradient))
    return "the output of a chain needs a size of 0 to 2^42 bytes";
  for (size_t i = 0; i < chain.stages.size(); ++i) {
    const Stage &stage = chain.stages[i];
    if (!isSize(stage.input) || !isSize(stage.inputGradient))
      return describe("input and gradient need a size of 0 to 2^42 bytes", i);
    if (!isWorkspace(stage.fastForwardWorkspace))
      return describe("a workspace is at most 2^42 bytes", i);
    if (!isTime(stage.fastForward))
      return describe("times are finite and not negative", i);
    bool lossless = false;
    for (const StageOption &option : stage.options) {
      if (!isSize(option.saved) || !isSize(option.hostBytes))
        return describe("an option saves 0 to 2^42 bytes", i);
      if (!isWorkspace(option.forwardWorkspace) ||
          !isWorkspace(option.backwardWorkspace))
        return describe("a workspace is at most 2^42 bytes", i);
      if (!isTime(option.forward) || !isTime(option.backward))
        return describe("times are finite and not negative", i);
      if (option.saved < chain.value(i + 1))
        return describe("every option saves at least the stage's output", i);
      lossless |= !option.lossy;
    }
    if (!lossless)
      return describe("expected at least one option that is not lossy", i);
  }
  return "";
}
