//===- RingCollective.h - Collectives on a ring of ranks --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Carries out the collectives of Collective.h over the n ranks of a group.
// Ranks are numbered by their indexes in the group. The tensors are divided
// into n parts:
//
//   all_reduce                   The concatenation of all tensors is divided
//                                evenly: the first `count % n` parts have one
//                                element more than the others.
//   reduce_scatter, all_gather   Part p is the concatenation of the shards of
//                                rank p, without padding.
//
// In every round, each rank sends one part to the next rank and receives
// another part from the previous rank. In round t, rank r sends part s and
// receives part s - 1, both modulo n, where s is r - t - 1 in a reduce-scatter
// and r - t in the other collectives. An all-reduce has 2 (n - 1) rounds, and
// the other collectives have n - 1 rounds:
//
//   all_reduce      In rounds 0, ..., n - 2, the rank adds the received part to
//                   its own. Rank r then has the complete sum of part r + 1. In
//                   rounds n - 1, ..., 2n - 3, the rank overwrites its own part
//                   with the received part, which is complete.
//   reduce_scatter  The rank adds the received part to its own. In the last
//                   round this completes the sum of part r, which rank r stores
//                   in its shards instead of in the whole tensors.
//   all_gather      The rank stores the received part in the whole tensors. In
//                   round 0 it sends its shards, and also copies them to the
//                   whole tensors.
//
// Example: the rounds of an all-reduce for n = 2:
//
//   round 0: rank 0 sends its part 0, and adds the received part 1 to its own
//            rank 1 sends its part 1, and adds the received part 0 to its own
//   round 1: rank 0 sends the sum of part 1, and receives that of part 0
//            rank 1 sends the sum of part 0, and receives that of part 1
//
// Order of sums. Part p of the result is
//   all_reduce      ((x[p] + x[p+1]) + x[p+2]) + ... + x[p-1]
//   reduce_scatter  ((x[p+1] + x[p+2]) + x[p+3]) + ... + x[p]
// where x[r] is the part p of rank r, and indexes are modulo n. In an
// all-reduce, only rank p - 1 computes the last sum, and all other ranks
// receive it, so the result has the same bits on all ranks. In all runs with
// the same inputs and n, a result has the same bits. Each sum of bf16 and f16
// elements is rounded to the type before the next rank adds to it, n - 1 times
// in total (see addElements()).
//
// Bytes. With b[p] bytes in part p, without padding, and b bytes in all parts,
// rank r sends
//   all_reduce      2 b - b[r+1] - b[r+2]: every part twice, except that it
//                   sends part r + 1 only in the second half, and part r + 2
//                   only in the first half
//   reduce_scatter  b - b[r]: every part except the one that it keeps
//   all_gather      b - b[r+1]: every part except that of the next rank
// If all parts have the same size, these are b (n - 1) / n bytes, and twice as
// many in an all-reduce. Padding is never counted.
//
// Pipelining. Parts are sent in fragments, each of which is in one tensor. A
// rank sends a fragment as soon as it has received the fragment in the previous
// round, so that it adds, sends and receives at the same time, and needs
// scratch memory only for a few fragments.
//
// Element numbers. The elements of all parts are numbered, and the elements of
// each part have contiguous numbers. In an all-reduce, the number of an element
// is its index in the concatenation. In the other collectives, the padding of
// the shards has numbers, too: if S is the sum of the shard sizes K of all
// tensors, part p has the numbers [p S, (p + 1) S). The tensor of an element is
// found by a binary search in the prefix sums CollectiveSpan::end. Fragments
// skip the numbers of padding.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_RINGCOLLECTIVE_H
#define KILN_LIB_RUNTIME_COMM_RINGCOLLECTIVE_H

#include "Transport.h"
#include "kiln/Runtime/Comm/Collective.h"
#include "kiln/Support/ElementType.h"

#include <array>
#include <cstdint>

namespace kiln::runtime {

/// A part of the tensors of a collective: the elements with the numbers [begin,
/// begin + count).
struct RingPart {
  int64_t begin = 0, count = 0;
};

/// Returns part `part` of an all-reduce of `count` elements on `ranks` ranks.
RingPart ringPart(int64_t count, int ranks, int part);

/// Returns the bytes that the rank with index `rank` in its group of `ranks`
/// ranks sends in a collective. The addresses of the spans are not used.
int64_t ringSentBytes(const CollectiveJob &job, int ranks, int rank);

/// A collective in progress. Its member functions allocate no memory.
class RingCollective {
public:
  /// The maximum number of fragments that a rank may be sending at the same
  /// time; the same limit applies to receiving.
  static constexpr int window = 4;
  /// The largest size of a fragment.
  static constexpr int64_t fragmentBytes = 512 * 1024;

  /// Returns the scratch bytes that begin() needs for sums of up to `bytes`
  /// bytes. For a reduce-scatter, `bytes` is the size of the shards of all
  /// ranks with their padding.
  static int64_t scratchBytes(int64_t bytes, int ranks);

  /// Begins a collective over a group of at least two ranks. All ranks must
  /// begin the same collectives, with spans of the same sizes, in the same
  /// order. `tag` must differ from the tags of all earlier messages that have
  /// possibly not arrived yet. The previous collective must be complete.
  void begin(const CollectiveJob &job, char *scratch, int tag,
             const Transport &transport);

  bool isDone() const {
    return done_.round == rounds_ && sent_.round == rounds_;
  }

  /// Sends, receives and adds what is possible without waiting. Sets `advanced`
  /// to true if anything was possible.
  Status advance(Transport &transport, bool &advanced);

private:
  /// A fragment of the part that a rank sends or receives in a round.
  struct Cursor {
    int round = 0;
    int64_t element = 0; ///< The number of its first element.
    /// The number of fragments before this one, in all rounds.
    int64_t index = 0;

    bool isBefore(const Cursor &other) const {
      return round != other.round ? round < other.round
                                  : element < other.element;
    }
  };
  enum class Side { Send, Receive };

  struct Fragment {
    /// The address of its first element in the whole tensor. Null for padding.
    char *whole = nullptr;
    /// The address of the same element in the shard of this rank. It is used
    /// only if the fragment is part of that shard.
    char *shard = nullptr;
    /// Number of elements. Not positive if the elements are padding.
    int64_t count = 0;
    /// The element number at which this tensor or the part ends, whichever
    /// comes first.
    int64_t next = 0;
  };

  bool isSharded() const { return job_.collective != Collective::AllReduce; }
  bool isReduction() const { return job_.collective != Collective::AllGather; }
  /// Returns true if fragments received in the round of `cursor` are added to
  /// the elements of this rank, and false if they overwrite these elements.
  bool isAdded(const Cursor &cursor) const {
    return isReduction() && cursor.round < size_ - 1;
  }
  /// Returns the part that a rank sends or receives in a round.
  int partIndex(Side side, int round) const;
  RingPart partOf(Side side, int round) const;
  /// Returns a cursor at the first fragment that is sent or received.
  Cursor firstOf(Side side) const;
  /// Moves a cursor that is at padding, or beyond the last fragment of its
  /// round, to the next fragment.
  void skipEmpty(Side side, Cursor &cursor) const;
  /// Moves a cursor to the next fragment.
  void moveOn(Side side, Cursor &cursor) const;
  Fragment fragmentOf(Side side, const Cursor &cursor) const;
  char *scratchOf(const Cursor &cursor) const {
    return scratch_ + cursor.index % window * scratchPitch_;
  }

  Status postReceives(Transport &transport, bool &advanced);
  Status finishReceives(Transport &transport, bool &advanced);
  Status postSends(Transport &transport, bool &advanced);
  Status finishSends(Transport &transport, bool &advanced);

  /// Adds the elements of a received fragment to those of this rank.
  void add(const Cursor &cursor);

  CollectiveJob job_;
  char *scratch_ = nullptr;
  /// In an all-reduce, the number of elements of all whole tensors. Otherwise,
  /// the number of elements of all shards of one rank, including padding.
  int64_t count_ = 0;
  int64_t elementBytes_ = 0, fragmentElements_ = 0;
  int64_t scratchPitch_ = 0;
  /// The index of this rank in the group, and the size of the group.
  int rank_ = 0, size_ = 1;
  /// The previous and the next rank of the group, as numbers among all ranks of
  /// the run.
  int previous_ = 0, next_ = 0;
  int rounds_ = 0, tag_ = 0;
  /// The first fragment whose receive has not been posted (posted_), whose
  /// receive has not completed (done_), whose send has not been posted
  /// (sending_), or whose send has not completed (sent_).
  Cursor posted_, done_, sending_, sent_;
  std::array<MessageRequest, window> receives_, sends_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_RINGCOLLECTIVE_H
