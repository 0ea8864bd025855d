//===- ChainView.cpp - A chain, prepared for planning -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainView.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::chain;

View::View(const Chain &chain, const ChainOptions &settings) {
  for (int32_t i = 0; i <= chain.size(); ++i) {
    value.push_back(chain.value(i));
    gradient.push_back(chain.gradient(i));
  }
  for (int32_t i = 0; i < chain.size(); ++i)
    addStage(chain, i, settings);
  numberSegments(chain);
}

/// Nothing is lost when `worse` is never used. Equal options keep the first.
static bool dominates(const Option &better, const Option &worse) {
  return better.saved <= worse.saved && better.time <= worse.time &&
         better.forwardNeed <= worse.forwardNeed &&
         better.backwardNeed <= worse.backwardNeed &&
         better.hostBytes <= worse.hostBytes;
}

void View::addStage(const Chain &chain, int32_t i,
                    const ChainOptions &settings) {
  const Stage &stage = chain.stages[i];
  fastForward.push_back(stage.fastForward);
  int64_t workspace = stage.fastForwardWorkspace;
  checkpointNeeds.push_back(value[i + 1] + std::max<int64_t>(workspace, 0));
  dropNeeds.push_back(std::max(value[i] + value[i + 1] + workspace,
                               std::max(value[i], value[i + 1])));

  std::vector<Option> kept;
  for (size_t k = 0; k < stage.options.size(); ++k) {
    const StageOption &given = stage.options[k];
    if (given.lossy && !settings.allowLossy)
      continue;
    Option option;
    option.saved = given.saved;
    option.hostBytes = given.hostBytes;
    option.time = given.forward + given.backward;
    option.forward = given.forward;
    option.forwardNeed =
        given.saved + std::max<int64_t>(given.forwardWorkspace, 0);
    option.backwardNeed = std::max(
        {gradient[i + 1] + given.saved + gradient[i] + given.backwardWorkspace,
         gradient[i + 1] + given.saved, gradient[i]});
    option.index = static_cast<int32_t>(k);
    auto worse = [&](const Option &other) { return dominates(option, other); };
    auto better = [&](const Option &other) { return dominates(other, option); };
    if (std::any_of(kept.begin(), kept.end(), better))
      continue;
    kept.erase(std::remove_if(kept.begin(), kept.end(), worse), kept.end());
    kept.push_back(option);
  }
  options.push_back(std::move(kept));
}

void View::numberSegments(const Chain &chain) {
  // Stages that are equal get equal numbers.
  int32_t n = size();
  std::vector<int32_t> kind(n), representative;
  for (int32_t i = 0; i < n; ++i) {
    auto same = [&](int32_t other) {
      return chain.stages[other] == chain.stages[i];
    };
    auto found =
        std::find_if(representative.begin(), representative.end(), same);
    kind[i] = static_cast<int32_t>(found - representative.begin());
    if (found == representative.end())
      representative.push_back(i);
  }

  // A segment is its first stage and the number of the rest. The rest of [l, l]
  // is delta_{l+1} alone, which a negative number stands for.
  llvm::DenseMap<int64_t, int32_t> ends;
  llvm::DenseMap<std::pair<int32_t, int32_t>, int32_t> numbers;
  segments.assign(static_cast<size_t>(n) * n, -1);
  for (int32_t l = 0; l < n; ++l) {
    int32_t rest = ends.try_emplace(gradient[l + 1], -1 - int32_t(ends.size()))
                       .first->second;
    for (int32_t i = l; i >= 0; --i) {
      rest = numbers.try_emplace({kind[i], rest}, int32_t(numbers.size()))
                 .first->second;
      segments[static_cast<size_t>(i) * n + l] = rest;
    }
  }
  segmentCount = static_cast<int32_t>(numbers.size());
}
