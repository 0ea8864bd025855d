//===- WholeStates.cpp - Whole tensors of sharded states ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WholeStates.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

/// Maximum number of bytes of a message.
static constexpr int64_t chunkBytes = 4 << 20;

/// Copies the shards of all other ranks to rank 0, which passes them to
/// `receive` in the order of the ranks. `shard` is the shard of this rank. A
/// rank without one (null) sends zeros, because rank 0 expects its messages. If
/// `receive` is null, or after it has failed, rank 0 drops what it receives.
static Status passShards(World &world, const char *what, const StateInfo &state,
                         const char *shard,
                         const WholeStates::Receiver &receive) {
  int64_t perChunk = chunkBytes / bytesOf(state.type);
  std::vector<char> chunk;
  if (world.rank() == 0 || !shard)
    chunk.resize(size_t(std::min(chunkBytes, state.bytes())));
  Status received;
  for (int rank = 1; rank < world.size(); ++rank) {
    int64_t held = state.rangeOf(rank).size();
    for (int64_t first = 0; first < held; first += perChunk) {
      int64_t bytes = bytesOf(state.type, std::min(perChunk, held - first));
      const char *mine = nullptr;
      if (world.rank() == rank)
        mine = shard ? shard + bytesOf(state.type, first) : chunk.data();
      char *there = world.rank() == 0 ? chunk.data() : nullptr;
      Status status = world.fetch(what, rank, mine, bytes, there);
      if (!status.ok())
        return status;
      if (there && receive && received.ok())
        received = receive(there, bytes);
    }
  }
  return received;
}

/// Reads a state from all ranks. All of them send and receive all messages,
/// even if this fails on some.
Status WholeStates::transfer(size_t index, const Receiver &receive) {
  const StateInfo &state = description().states[index];
  World *world = ranks_.world();
  bool hasPassed = !world;
  Status status = engine_.accessState(
      index, HostAccess::Read, [&](const char *shard) -> Status {
        int64_t held = bytesOf(state.type, state.rangeOf(0).size());
        if (Status own = isFirst() ? receive(shard, held) : Status(); !own.ok())
          return own;
        hasPassed = true;
        return world ? passShards(*world, what_, state, shard, receive)
                     : Status();
      });
  if (hasPassed)
    return status;
  Status passed = passShards(*world, what_, state, nullptr, nullptr);
  return status.ok() ? passed : status;
}

Status WholeStates::vote(const Status &outcome) {
  agreed_ = ranks_.vote(what_, outcome, {}, Patience::Unlimited).status();
  return agreed_;
}

Status WholeStates::read(size_t index, const Receiver &receive) {
  const StateInfo &state = description().states[index];
  if (!state.isSharded()) {
    if (!isFirst())
      return Status();
    return engine_.accessState(index, HostAccess::Read, [&](const char *data) {
      return receive(data, state.bytes());
    });
  }
  if (!agreed_.ok())
    return agreed_;
  if (Status status = vote(Status()); !status.ok())
    return status;
  return vote(transfer(index, receive));
}

Status WholeStates::send(const std::vector<size_t> &states) {
  for (size_t i : states)
    if (Status status = read(i, nullptr); !status.ok())
      return status;
  return Status();
}

Status WholeStates::finish(const Status &outcome) {
  return agreed_.ok() ? vote(outcome) : agreed_;
}

} // namespace kiln::runtime
