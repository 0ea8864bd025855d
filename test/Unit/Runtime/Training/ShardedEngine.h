//===- ShardedEngine.h - An engine with sharded states ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An engine without programs, whose states are whole or sharded over any number
// of ranks. Its accesses to a state can be made to fail.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_TRAINING_SHARDEDENGINE_H
#define KILN_TEST_UNIT_RUNTIME_TRAINING_SHARDEDENGINE_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Engine/StateLayout.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace kiln::runtime {

using support::ElementType;

/// Divides the elements of a state, or of its shards if it is divided already,
/// over `ranks` ranks of an axis. The elements form `blocks` blocks, each of
/// which is divided over all ranks. Each part of a block has `extra` more
/// elements than needed, but no more elements than the block. The new shards
/// have one dimension.
inline void divide(StateInfo &state, int64_t ranks,
                   std::string_view axis = support::dataAxis,
                   int64_t blocks = 1, int64_t extra = 0) {
  if (ranks == 1)
    return;
  int64_t length = state.elements() / blocks;
  int64_t part = std::min((length + ranks - 1) / ranks + extra, length);
  state.shape = {blocks * part};
  state.divisions.push_back({std::string(axis), blocks, blocks * part});
}

/// Collects the states of a description.
class StateList {
public:
  /// Sharded states are divided over `ranks` ranks.
  explicit StateList(int64_t ranks) : ranks_(ranks) {
    description_.roles = {{"main", 1}};
    if (ranks > 1)
      description_.mesh.axes = {{std::string(support::dataAxis), ranks}};
  }

  /// Sharded states are divided over the axis of data parallelism.
  explicit StateList(const support::Mesh &mesh)
      : ranks_(mesh.sizeOf(support::dataAxis)) {
    description_.roles = {{"main", 1}};
    description_.mesh = mesh;
  }

  /// Adds a state with random initial values, which is not sharded.
  StateInfo &add(const std::string &name, ElementType type,
                 std::vector<int64_t> shape) {
    StateInfo &state = description_.states.emplace_back();
    state.name = name;
    state.sourceName = "model." + name;
    state.type = type;
    state.shape = state.globalShape = std::move(shape);
    state.shard.assign(state.shape.size(), 0);
    state.roles = {0};
    state.init.kind = InitialValue::Kind::Normal;
    return state;
  }
  StateInfo &addSharded(const std::string &name, ElementType type,
                        std::vector<int64_t> shape) {
    StateInfo &state = add(name, type, std::move(shape));
    divide(state, ranks_);
    return state;
  }
  /// Adds a sharded moment of the parameter `of`.
  StateInfo &addMoment(const std::string &of, const std::string &slot,
                       std::vector<int64_t> shape) {
    StateInfo &state =
        addSharded(of + "." + slot, ElementType::F32, std::move(shape));
    state.role = StateRole::Optimizer;
    state.of = of;
    state.slot = slot;
    return state;
  }
  /// Makes a state a mirror (a copy) of the parameter `of`.
  static void makeMirror(StateInfo &state, const std::string &of) {
    state.role = StateRole::Mirror;
    state.of = of;
  }

  Description &description() { return description_; }

private:
  int64_t ranks_;
  Description description_;
};

class ShardedEngine : public Engine {
public:
  explicit ShardedEngine(Description description)
      : description_(std::move(description)) {
    // Bytes that the initialization must overwrite.
    for (const StateInfo &state : description_.states)
      states_.push_back(std::string(std::size_t(state.bytes()), '\x55'));
  }

  /// Makes every access to this state fail before the caller sees the data.
  void failAt(std::size_t state) { failing_ = state; }
  /// Makes start() take this long.
  void delayStart(std::chrono::milliseconds delay) { delay_ = delay; }

  const std::string &bytes(std::size_t state) const { return states_[state]; }
  std::size_t size() const { return states_.size(); }

  const Description &description() const override { return description_; }
  Status join(World &) override { return Status(); }
  Status start(int) override {
    std::this_thread::sleep_for(delay_);
    return Status();
  }
  int threads() const override { return 1; }
  char *stateData(std::size_t state) override { return states_[state].data(); }
  Status accessState(std::size_t state, HostAccess,
                     const std::function<Status(char *)> &body) override {
    if (state == failing_)
      return Status::error("the device is gone");
    return body(stateData(state));
  }
  char *inputData(std::size_t, std::size_t) override { return nullptr; }
  char *outputData(std::size_t, std::size_t) override { return nullptr; }
  Status run(std::size_t) override { return Status(); }

private:
  Description description_;
  std::vector<std::string> states_;
  std::size_t failing_ = SIZE_MAX;
  std::chrono::milliseconds delay_ = {};
};

/// Returns the bytes of the part of a tensor that a rank of the mesh holds.
/// `whole` has the bytes of the whole tensor. The padding of the part is zero.
inline std::string partOf(const std::string &whole, const StateInfo &state,
                          const support::Mesh &mesh, int64_t rank) {
  std::string part(std::size_t(state.bytes()), '\0');
  StateLayout layout(state, mesh, rank);
  layout.forEachRun(layout.whole(), [&](const ElementRun &run) {
    auto bytes = [&](int64_t elements) {
      return std::size_t(bytesOf(state.type, elements));
    };
    part.replace(bytes(run.local), bytes(run.count), whole, bytes(run.whole),
                 bytes(run.count));
  });
  return part;
}

} // namespace kiln::runtime

#endif // KILN_TEST_UNIT_RUNTIME_TRAINING_SHARDEDENGINE_H
