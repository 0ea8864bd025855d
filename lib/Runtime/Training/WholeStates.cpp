//===- WholeStates.cpp - Whole tensors of sharded states ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WholeStates.h"

#include "kiln/Runtime/Engine/StateLayout.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

/// Maximum size in bytes of the part of a tensor that rank 0 collects at once.
static constexpr int64_t chunkBytes = 4 << 20;

namespace {

/// Collects the elements of all ranks on rank 0, in chunks of the whole tensor.
class Collector {
public:
  /// `world` is null if there is one rank. `mine` is the part of the tensor on
  /// this rank, or null if this rank cannot access the part. In that case the
  /// rank sends zeros, because rank 0 waits for its messages.
  Collector(World *world, const char *what, const StateInfo &state,
            const support::Mesh &mesh, const char *mine);

  /// Passes the chunks to `receive` on rank 0. If `receive` is null, or after
  /// `receive` has failed, drops the chunks.
  Status run(const WholeStates::Receiver &receive);

private:
  /// A rank that sends its elements. No other owner has the same elements.
  struct Owner {
    int rank;
    StateLayout layout;
  };
  /// The elements of an owner in a chunk: their number, the number of
  /// contiguous runs that they form, and the first of these runs.
  struct Part {
    int64_t elements = 0, runs = 0;
    ElementRun first;
  };

  Status collect(const Owner &owner, const ElementRange &range);
  /// Copies `run`, contiguous elements of this rank, to `to`. Returns the end
  /// of the copy.
  char *copyRun(const ElementRun &run, char *to) const;
  int64_t bytes(int64_t elements) const {
    return bytesOf(WholeStates::typeOf(state_), elements);
  }

  World *world_;
  const char *what_;
  const StateInfo &state_;
  const char *mine_;
  int rank_;
  std::vector<Owner> owners_;
  std::vector<char> chunk_;  ///< On rank 0: elements of the whole tensor.
  std::vector<char> packed_; ///< Elements of a chunk that one rank sends.
};

} // namespace

Collector::Collector(World *world, const char *what, const StateInfo &state,
                     const support::Mesh &mesh, const char *mine)
    : world_(world), what_(what), state_(state), mine_(mine),
      rank_(world ? world->rank() : 0) {
  const std::vector<std::string> axes = state.axes();
  for (int rank = 0, size = world ? world->size() : 1; rank < size; ++rank)
    if (mesh.firstWith(axes, rank) == rank)
      owners_.push_back({rank, StateLayout(state, mesh, rank)});
}

char *Collector::copyRun(const ElementRun &run, char *to) const {
  if (!state_.quantized)
    return std::copy_n(mine_ + bytes(run.local), bytes(run.count), to);
  decodeWeight(mine_, state_.quantized->layout, run.local, run.count,
               reinterpret_cast<float *>(to));
  return to + bytes(run.count);
}

/// Copies the elements that an owner has in `range` to the chunk on rank 0.
/// `range` is the range of the whole tensor that the chunk contains. All ranks
/// call this function.
Status Collector::collect(const Owner &owner, const ElementRange &range) {
  Part part;
  owner.layout.forEachRun(range, [&](const ElementRun &run) {
    if (part.runs++ == 0)
      part.first = run;
    part.elements += run.count;
  });
  if (part.elements == 0)
    return Status();
  auto place = [&](const ElementRun &run) {
    return chunk_.data() + bytes(run.whole - range.begin);
  };
  if (owner.rank == 0) {
    if (rank_ == 0 && mine_)
      owner.layout.forEachRun(
          range, [&](const ElementRun &run) { copyRun(run, place(run)); });
    return Status();
  }
  bool sends = rank_ == owner.rank;
  bool isPacked = part.runs > 1 || state_.quantized;
  if ((sends || rank_ == 0) && (isPacked || !mine_))
    packed_.resize(size_t(bytes(part.elements)));
  char *packed = packed_.data();
  const char *from = sends ? packed : nullptr;
  if (sends && mine_ && !isPacked)
    from = mine_ + bytes(part.first.local);
  else if (sends && mine_)
    owner.layout.forEachRun(
        range, [&](const ElementRun &run) { packed = copyRun(run, packed); });
  char *to = nullptr;
  if (rank_ == 0)
    to = isPacked ? packed : place(part.first);
  Status status =
      world_->fetch(what_, owner.rank, from, bytes(part.elements), to);
  if (status.ok() && rank_ == 0 && isPacked)
    owner.layout.forEachRun(range, [&](const ElementRun &run) {
      std::copy_n(to, bytes(run.count), place(run));
      to += bytes(run.count);
    });
  return status;
}

Status Collector::run(const WholeStates::Receiver &receive) {
  int64_t count = state_.globalElements();
  int64_t perChunk = chunkBytes / bytes(1);
  if (rank_ == 0)
    chunk_.resize(size_t(bytes(std::min(perChunk, count))));
  Status received;
  for (int64_t first = 0; first < count; first += perChunk) {
    ElementRange range = {first, std::min(first + perChunk, count)};
    for (const Owner &owner : owners_)
      if (Status status = collect(owner, range); !status.ok())
        return status;
    if (rank_ == 0 && receive && received.ok())
      received = receive(chunk_.data(), bytes(range.size()));
  }
  return received;
}

/// Reads a state from all ranks. All ranks send and receive all messages, even
/// if the read fails on some ranks.
Status WholeStates::transfer(size_t index, const Receiver &receive) {
  const StateInfo &state = description().states[index];
  World *world = ranks_.world();
  bool hasPassed = !world;
  Status status = engine_.accessState(
      index, HostAccess::Read, [&](const char *mine) -> Status {
        hasPassed = true;
        return Collector(world, what_, state, description().mesh, mine)
            .run(receive);
      });
  if (hasPassed)
    return status;
  Status passed =
      Collector(world, what_, state, description().mesh, nullptr).run(nullptr);
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
