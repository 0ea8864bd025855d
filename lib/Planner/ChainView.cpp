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

View::View(const Chain &chain, const ChainOptions &settings, size_t maxPending,
           bool relaxed) {
  for (int32_t i = 0; i <= chain.size(); ++i) {
    value.push_back(chain.value(i));
    gradient.push_back(chain.gradient(i));
  }
  pendingBefore.push_back(0);
  for (int32_t i = 0; i < chain.size(); ++i) {
    addStage(chain, i, settings);
    addPending(i, maxPending, relaxed);
    pendingBefore.push_back(pendingBefore.back() + pending[i].size());
  }
  numberSegments(chain);
}

/// Nothing is lost when `worse` is never used. Equal options keep the first.
static bool dominates(const Option &better, const Option &worse) {
  return better.saved <= worse.saved && better.forward <= worse.forward &&
         better.time <= worse.time && better.saveNeed <= worse.saveNeed &&
         better.saveDropNeed <= worse.saveDropNeed &&
         better.backwardNeed <= worse.backwardNeed;
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
    option.forward = given.forward;
    option.time = given.forward + given.backward;
    int64_t during = given.saved + given.forwardWorkspace;
    option.saveNeed = std::max(given.saved, during);
    option.saveDropNeed = std::max({value[i], given.saved, value[i] + during});
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

void View::addPending(int32_t i, size_t count, bool relaxed) {
  std::vector<Option> sorted = options[i];
  auto smaller = [](const Option &a, const Option &b) {
    return std::pair(a.saved, a.index) < std::pair(b.saved, b.index);
  };
  std::sort(sorted.begin(), sorted.end(), smaller);
  std::vector<Option> &chosen = pending.emplace_back();
  count = std::min(count, sorted.size());
  for (size_t group = 0; group < count; ++group) {
    // Neighbours in size stand for each other.
    auto begin = sorted.begin() + group * sorted.size() / count;
    auto end = sorted.begin() + (group + 1) * sorted.size() / count;
    Option one = *begin;
    for (auto other = begin; relaxed && other != end; ++other) {
      one.time = std::min(one.time, other->time);
      one.saveDropNeed = std::min(one.saveDropNeed, other->saveDropNeed);
      one.backwardNeed = std::min(one.backwardNeed, other->backwardNeed);
    }
    chosen.push_back(one);
  }
  tailStride = std::max(tailStride, count + 1);
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

  // A segment is its first stage and the number of the rest. An empty one is
  // its tail: a gradient, or a stage, its option, and the gradient behind it.
  llvm::DenseMap<std::pair<int64_t, int64_t>, int32_t> empty, longer;
  numbers.assign((n + 1) * tailStride * (n + 1), -1);
  auto numberOf = [&](auto &map, int64_t a, int64_t b) {
    auto [entry, isNew] = map.try_emplace({a, b}, segmentCount);
    segmentCount += isNew;
    return entry->second;
  };
  for (int32_t end = 0; end <= n; ++end) {
    for (int32_t tail = 0; tail < numTails(end); ++tail) {
      int32_t number = tail == 0
                           ? numberOf(empty, gradient[end], -1)
                           : numberOf(empty, gradient[end + 1],
                                      int64_t(kind[end]) * tailStride + tail);
      numbers[place({end, end, tail})] = number;
      for (int32_t first = end; first-- > 0;) {
        number = numberOf(longer, kind[first], number);
        numbers[place({first, end, tail})] = number;
      }
    }
  }
}
