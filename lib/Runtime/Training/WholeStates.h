//===- WholeStates.h - Whole tensors of sharded states ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first rank writes files that contain whole tensors. It collects each
// tensor in chunks, in the order of the elements. For each chunk, the other
// ranks send the elements of the chunk that they store. If several ranks store
// the same elements, only the first of these ranks sends them.
//
// Every rank reads the same states in the same order, although only the first
// rank uses their contents:
//
//   WholeStates states(engine, ranks, "the checkpoint");
//   Status status = isFirst ? write(states)          // calls read(i, add)
//                           : send(states, indexes); // calls read(i)
//   status = states.finish(status);
//
// Errors. A read of a sharded state begins and ends with a vote: the ranks
// exchange their outcomes. If the read fails on any rank, for example because
// the disk of the first rank is full, all ranks return this error, and no rank
// waits for another rank. A rank that fails between two reads calls finish().
// The other ranks receive the error of that rank in the first vote of their
// next read. After a successful read, the first rank therefore has the elements
// of all ranks, and may complete its file. States that are not sharded need no
// messages.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_WHOLESTATES_H
#define KILN_LIB_RUNTIME_TRAINING_WHOLESTATES_H

#include "Ranks.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <functional>
#include <vector>

namespace kiln::runtime {

class WholeStates {
public:
  /// Receives consecutive bytes of a tensor, which are whole elements.
  using Receiver = std::function<Status(const char *data, int64_t bytes)>;

  /// `what` says what the states are read for, such as "the checkpoint", in
  /// messages about failures of other ranks. The arguments must outlive this
  /// object.
  WholeStates(Engine &engine, Ranks &ranks, const char *what)
      : engine_(engine), ranks_(ranks), what_(what) {}

  /// Returns the type of the elements that read() passes to the receiver. If
  /// the state is sharded and quantized, read() decodes the elements to f32.
  static ElementType typeOf(const StateInfo &state) {
    return state.quantized && state.isSharded() ? ElementType::F32 : state.type;
  }

  Engine &engine() const { return engine_; }
  const Description &description() const { return engine_.description(); }
  bool isFirst() const { return ranks_.isFirst(); }

  /// On the first rank, calls `receive` with the bytes of the whole tensor of a
  /// state, from first to last, without padding: once if the state is not
  /// sharded, otherwise for chunks of it. On other ranks, sends the shard of
  /// the state, if it is sharded. The elements have the type typeOf(state).
  Status read(std::size_t state, const Receiver &receive);

  /// Sends the shards of these states. Must not be called on the first rank.
  Status send(const std::vector<std::size_t> &states);

  /// Ends the reads; the ranks exchange their outcomes. If a rank has failed,
  /// returns the same error on all ranks.
  Status finish(const Status &outcome);

private:
  Status vote(const Status &outcome);
  Status transfer(std::size_t state, const Receiver &receive);

  Engine &engine_;
  Ranks &ranks_;
  const char *what_;
  /// The error of the first vote (exchange of the outcomes of all ranks) that
  /// has failed. No vote takes place after a failed vote.
  Status agreed_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_WHOLESTATES_H
