//===- ChainTestUtils.cpp - Random chains and their optima ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainTestUtils.h"

#include <queue>
#include <unordered_map>

using namespace kiln::support;
using namespace kiln;

/// Returns a number from `low` to `high`. It is used instead of
/// std::uniform_int_distribution, whose values depend on the standard library.
static int64_t pick(std::mt19937 &random, int64_t low, int64_t high) {
  return low + random() % (high - low + 1);
}

Chain kiln::randomChain(std::mt19937 &random, int stages, int options) {
  // The ranges of sizes and workspaces vary between chains. Workspaces may be
  // 0.
  int64_t largest = random() % 2 ? 10 : 3, more = pick(random, 1, 15);
  int64_t workspace = random() % 3 == 0 ? 0 : pick(random, 1, 20);
  Chain chain;
  chain.stages.resize(stages);
  for (Stage &stage : chain.stages) {
    stage.input = pick(random, 1, largest);
    stage.inputGradient = random() % 4 ? stage.input : pick(random, 0, largest);
    stage.fastForward = pick(random, 1, 10);
    stage.fastForwardWorkspace = pick(random, 0, workspace);
  }
  chain.output = pick(random, 0, 2);
  chain.outputGradient = pick(random, 0, 2);
  for (int i = 0; i < stages; ++i) {
    Stage &stage = chain.stages[i];
    for (int64_t k = pick(random, 1, options); k > 0; --k) {
      StageOption option;
      option.saved = chain.value(i + 1) + pick(random, 0, more);
      option.forward =
          stage.fastForward + (random() % 2 ? 0 : pick(random, 0, 3));
      option.backward = pick(random, 1, 20);
      option.forwardWorkspace = pick(random, 0, workspace);
      option.backwardWorkspace =
          pick(random, workspace > 0 ? -2 : 0, workspace);
      stage.options.push_back(option);
    }
  }
  return chain;
}

Chain kiln::transformerChain(int layers, int options) {
  // A residual has 8192 tokens of width 4096 in float32. Each half of a layer
  // saves between one and about ten times the size of its output, plus a small
  // multiple of 64 bytes.
  const int64_t residual = int64_t(8192) * 4096 * 4;
  auto makeStage = [&](double seconds, int64_t width) {
    Stage stage;
    stage.input = stage.inputGradient = residual;
    stage.fastForward = seconds;
    stage.fastForwardWorkspace = residual * 2;
    for (int k = 0; k < options; ++k) {
      double part = options > 1 ? double(k) / (options - 1) : 1;
      StageOption option;
      option.saved =
          residual + int64_t(residual * width * part * part) + 64 * k;
      option.forward = seconds * (1 + 0.02 * part);
      option.backward = seconds * (2 + 0.2 * (k % 3) + 0.8 * (1 - part));
      option.forwardWorkspace = residual * 2;
      option.backwardWorkspace = residual * 3;
      stage.options.push_back(option);
    }
    return stage;
  };
  Chain chain;
  chain.stages.push_back(makeStage(0.001, 1));
  chain.stages[0].input = 8192 * 4;
  chain.stages[0].inputGradient = 0;
  for (int layer = 0; layer < layers; ++layer) {
    chain.stages.push_back(makeStage(0.010, 6));
    chain.stages.push_back(makeStage(0.016, 9));
  }
  chain.stages.push_back(makeStage(0.001, 1));
  chain.stages.push_back(makeStage(0.020, 2));
  chain.output = chain.outputGradient = 4;
  return chain;
}

ChainCost kiln::saveAll(const Chain &chain) {
  std::vector<ChainOp> ops;
  for (int32_t i = 0; i < chain.size(); ++i) {
    int32_t fastest = 0;
    auto time = [&](int32_t k) {
      const StageOption &option = chain.stages[i].options[k];
      return option.forward + option.backward;
    };
    for (size_t k = 1; k < chain.stages[i].options.size(); ++k)
      if (time(k) < time(fastest))
        fastest = k;
    ops.push_back({ChainOpKind::ForwardSave, i, fastest});
  }
  for (int32_t i = chain.size(); i-- > 0;)
    ops.push_back({ChainOpKind::Backward, i, -1});
  return simulate(chain, ops);
}

namespace {

/// The set of values in memory. Stage i computes a_{i+1} from a_i. `alone`
/// marks the values a_i that are stored separately from saved values. For each
/// stage, `saved` is 0 if the stage has saved nothing, and otherwise the index
/// of the option that it used, plus 1. The gradient of the value a_i with i =
/// `reached` is in memory.
struct Present {
  uint8_t alone[9] = {1};
  uint8_t saved[8] = {};
  uint8_t reached = 0;

  uint64_t key() const {
    uint64_t key = reached;
    for (int i = 0; i < 8; ++i)
      key = key << 3 | alone[i] << 2 | saved[i];
    return key;
  }
};

class Exhaustive {
public:
  Exhaustive(const Chain &chain, int64_t budget)
      : chain(chain), n(chain.size()), budget(budget) {}

  std::optional<double> solve() {
    Present start;
    start.reached = n;
    if (bytes(start) > budget)
      return std::nullopt;
    push(start, 0);
    while (!queue.empty()) {
      auto [time, state] = queue.top();
      queue.pop();
      if (time > best.at(state.key()))
        continue;
      if (state.reached == 0)
        return time;
      expand(state, time);
    }
    return std::nullopt;
  }

private:
  using Entry = std::pair<double, Present>;
  struct Later {
    bool operator()(const Entry &a, const Entry &b) const {
      return a.first > b.first;
    }
  };

  int64_t bytes(const Present &state) const {
    int64_t sum = chain.gradient(state.reached);
    for (int i = 0; i < n; ++i) {
      if (state.alone[i])
        sum += chain.value(i);
      if (state.saved[i])
        sum += chain.stages[i].options[state.saved[i] - 1].saved;
    }
    return sum;
  }

  void push(const Present &state, double time) {
    auto [entry, isNew] = best.try_emplace(state.key(), time);
    if (!isNew && entry->second <= time)
      return;
    entry->second = time;
    queue.push({time, state});
  }

  void expand(const Present &state, double time) {
    int64_t before = bytes(state);
    for (int i = 0; i < state.reached; ++i) {
      bool inSaved = i > 0 && state.saved[i - 1];
      if (!state.alone[i] && !inSaved)
        continue;
      const Stage &stage = chain.stages[i];
      // Run forward without saving values. The first case leaves the input in
      // memory, and the second case drops the input.
      if (i + 1 < state.reached && !state.alone[i + 1] && !state.saved[i] &&
          before + chain.value(i + 1) +
                  std::max<int64_t>(0, stage.fastForwardWorkspace) <=
              budget) {
        Present next = state;
        next.alone[i + 1] = 1;
        push(next, time + stage.fastForward);
      }
      if (i > 0 && state.alone[i] && i + 1 < state.reached &&
          !state.alone[i + 1] && !state.saved[i]) {
        Present next = state;
        next.alone[i + 1] = 1;
        next.alone[i] = 0;
        if (before + chain.value(i + 1) + stage.fastForwardWorkspace <=
                budget &&
            bytes(next) <= budget)
          push(next, time + stage.fastForward);
      }
      // Run forward with each option.
      for (size_t k = 0; k < stage.options.size() && !state.saved[i]; ++k) {
        const StageOption &option = stage.options[k];
        int64_t during = before + option.saved + option.forwardWorkspace;
        Present next = state;
        next.saved[i] = k + 1;
        next.alone[i + 1] = 0;
        if (std::max(during, before + option.saved) <= budget)
          push(next, time + option.forward);
        next.alone[i] = 0;
        if (i > 0 && state.alone[i] && during <= budget &&
            bytes(next) <= budget)
          push(next, time + option.forward);
      }
      // Run backward.
      if (i + 1 == state.reached && state.saved[i]) {
        const StageOption &option = stage.options[state.saved[i] - 1];
        Present next = state;
        next.saved[i] = 0;
        next.reached = i;
        if (i > 0)
          next.alone[i] = 0;
        if (before + chain.gradient(i) + option.backwardWorkspace <= budget &&
            bytes(next) <= budget)
          push(next, time + option.backward);
      }
    }
  }

  const Chain &chain;
  int n;
  int64_t budget;
  std::unordered_map<uint64_t, double> best;
  std::priority_queue<Entry, std::vector<Entry>, Later> queue;
};

} // namespace

std::optional<double> kiln::exhaustiveTime(const Chain &chain, int64_t budget) {
  return Exhaustive(chain, budget).solve();
}
