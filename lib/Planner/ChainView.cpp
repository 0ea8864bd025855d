//===- ChainView.cpp - A chain prepared for planning ------------*- C++ -*-===//
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
  pending.resize(size());
  numberKinds(chain);
  numberSegments();
}

size_t View::largestMenu() const {
  size_t most = 0;
  for (const auto &menu : options)
    most = std::max(most, menu.size());
  return most;
}

/// Returns true if `better` uses at most the memory and the time of `worse` in
/// every schedule, so that `worse` is not needed.
static bool dominates(const StageOption &better, const StageOption &worse) {
  return better.saved <= worse.saved && better.forward <= worse.forward &&
         better.forward + better.backward <= worse.forward + worse.backward &&
         better.saved + better.forwardWorkspace <=
             worse.saved + worse.forwardWorkspace &&
         better.saved + better.backwardWorkspace <=
             worse.saved + worse.backwardWorkspace;
}

void View::addStage(const Chain &chain, int32_t i,
                    const ChainOptions &settings) {
  const Stage &stage = chain.stages[i];
  fastForward.push_back(stage.fastForward);
  int64_t workspace = stage.fastForwardWorkspace;
  checkpointNeeds.push_back(value[i + 1] + std::max<int64_t>(workspace, 0));
  dropNeeds.push_back(std::max(value[i] + value[i + 1] + workspace,
                               std::max(value[i], value[i + 1])));

  options.emplace_back();
  for (size_t k = 0; k < stage.options.size(); ++k) {
    const StageOption &given = stage.options[k];
    bool useless = given.lossy && !settings.allowLossy;
    for (size_t other = 0; other < stage.options.size() && !useless; ++other)
      useless = other != k && dominates(stage.options[other], given) &&
                (!stage.options[other].lossy || settings.allowLossy) &&
                (other < k || !dominates(given, stage.options[other]));
    if (useless)
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
    options.back().push_back(option);
  }
}

void View::setPending(size_t count, const std::vector<double> &prices) {
  // All stages of one kind must get equal options, so they use the price (in
  // seconds per saved byte) of the first stage of this kind.
  std::vector<int32_t> payer(size(), -1);
  for (int32_t i = 0; i < size(); ++i) {
    if (payer[kinds[i]] < 0)
      payer[kinds[i]] = i;
    double price = prices[payer[kinds[i]]];
    pending[i] = options[i];
    auto cheaper = [&](const Option &a, const Option &b) {
      double costA = a.time + price * static_cast<double>(a.saved);
      double costB = b.time + price * static_cast<double>(b.saved);
      return std::pair(costA, a.index) < std::pair(costB, b.index);
    };
    std::sort(pending[i].begin(), pending[i].end(), cheaper);
    pending[i].resize(std::min(count, pending[i].size()));
  }
  numberSegments();
}

void View::setPendingRelaxed(size_t count) {
  for (int32_t i = 0; i < size(); ++i) {
    std::vector<Option> sorted = options[i];
    auto smaller = [](const Option &a, const Option &b) {
      return std::pair(a.saved, a.index) < std::pair(b.saved, b.index);
    };
    std::sort(sorted.begin(), sorted.end(), smaller);
    pending[i].clear();
    size_t groups = std::min(count, sorted.size());
    for (size_t group = 0; group < groups; ++group) {
      // Replace each group of options of similar size by one option that is at
      // least as good as every option of the group.
      auto begin = sorted.begin() + group * sorted.size() / groups;
      auto end = sorted.begin() + (group + 1) * sorted.size() / groups;
      Option one = *begin;
      for (auto other = begin; other != end; ++other) {
        one.time = std::min(one.time, other->time);
        one.saveDropNeed = std::min(one.saveDropNeed, other->saveDropNeed);
        one.backwardNeed = std::min(one.backwardNeed, other->backwardNeed);
      }
      pending[i].push_back(one);
    }
  }
  numberSegments();
}

void View::setSpan(int32_t most) {
  span = most;
  numberSegments();
}

void View::numberKinds(const Chain &chain) {
  std::vector<int32_t> representative;
  for (int32_t i = 0; i < size(); ++i) {
    auto same = [&](int32_t other) {
      return chain.stages[other] == chain.stages[i];
    };
    auto found =
        std::find_if(representative.begin(), representative.end(), same);
    kinds.push_back(static_cast<int32_t>(found - representative.begin()));
    if (found == representative.end())
      representative.push_back(i);
  }
}

void View::numberSegments() {
  pendingBefore.assign(1, 0);
  tailStride = 1;
  for (const auto &chosen : pending) {
    pendingBefore.push_back(pendingBefore.back() + chosen.size());
    tailStride = std::max(tailStride, chosen.size() + 1);
  }

  // Equivalent segments get equal numbers. Nonempty segments are equivalent if
  // their first stages have the same kind and the remaining segments are
  // equivalent. Empty segments are equivalent if the gradient in memory has the
  // same size and, if a following stage has saved its values (tail > 0), this
  // stage has the same kind and the same option.
  int32_t n = size();
  llvm::DenseMap<std::pair<int64_t, int64_t>, int32_t> empty, longer;
  lengthStride = std::min(span, n) + 1;
  numbers.assign(n + 1 + n * tailStride * lengthStride, -1);
  segmentCount = 0;
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
                                      int64_t(kinds[end]) * tailStride + tail);
      numbers[place({end, end, tail})] = number;
      for (int32_t first = end; first-- > firstOf(end);) {
        number = numberOf(longer, kinds[first], number);
        numbers[place({first, end, tail})] = number;
      }
    }
  }
}
