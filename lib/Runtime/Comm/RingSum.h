//===- RingSum.h - All-reduce on a ring of ranks ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums an array over n ranks, in place. The array may consist of several spans,
// which need not be adjacent in memory. It is divided into n parts, of which the
// first `count % n` have one element more than the others; nothing is padded.
// There are 2 (n - 1) rounds. In round t, rank r sends part r - t to rank r + 1
// and receives part r - t - 1 from rank r - 1, all modulo n:
//
//   rounds 0, ..., n - 2 (reduce-scatter): the rank adds the received part to
//   its own. After them, rank r has the complete sum of part r + 1.
//   rounds n - 1, ..., 2n - 3 (all-gather): the rank overwrites its part by the
//   received one, which is complete.
//
// For n = 2, part 0 of rank 0 and part 1 of rank 1:
//
//   round 0: rank 0 sends its part 0, and adds the part 1 of rank 1
//            rank 1 sends its part 1, and adds the part 0 of rank 0
//   round 1: rank 0 sends the sum of part 1, and receives that of part 0
//            rank 1 sends the sum of part 0, and receives that of part 1
//
// Order of sums. Part p of the result is
//   ((x[p] + x[p+1]) + x[p+2]) + ... + x[p-1],
// where x[r] is the part p of rank r, and indexes are modulo n. Only rank p - 1
// computes the last sum, and all others receive its bits. The result therefore
// has the same bits on all ranks, and in all runs with the same inputs and n.
// Each sum of bf16 and f16 elements is rounded to the type before the next rank
// adds to it, n - 1 times in total (see addElements()).
//
// Bytes. Rank r sends every part twice, except that it sends part r + 1 only in
// the second half and part r + 2 only in the first half: with b[p] bytes in
// part p and b bytes in the array, it sends 2 b - b[r+1] - b[r+2]. If n divides
// the number of elements, this is 2 b (n - 1) / n.
//
// Pipelining. Parts are sent in fragments, each of which is in one span. A rank
// sends a fragment as soon as it has received the fragment in the previous
// round, so that it adds, sends and receives at the same time, and needs scratch
// memory only for a few fragments.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_RINGSUM_H
#define KILN_LIB_RUNTIME_COMM_RINGSUM_H

#include "Transport.h"
#include "kiln/Runtime/Comm/World.h"
#include "kiln/Support/ElementType.h"

#include <array>
#include <cstdint>

namespace kiln::runtime {

/// Elements [begin, begin + count) of an array.
struct RingPart {
  int64_t begin = 0, count = 0;
};

/// Returns part `part` of an array of `count` elements on `ranks` ranks.
RingPart ringPart(int64_t count, int ranks, int part);

/// Returns the bytes that `rank` sends to sum `count` elements of
/// `elementBytes` bytes.
int64_t ringSentBytes(int64_t count, int64_t elementBytes, int ranks, int rank);

/// An all-reduce in progress. No function allocates memory.
class RingSum {
public:
  /// The number of fragments that may be on the way to or from a rank.
  static constexpr int window = 4;
  /// The largest size of a fragment.
  static constexpr int64_t fragmentBytes = 512 * 1024;

  /// Returns the scratch bytes that begin() needs for arrays of up to `bytes`
  /// bytes.
  static int64_t scratchBytes(int64_t bytes, int ranks);

  /// Begins a sum. All ranks must begin the same sums, with spans of the same
  /// sizes, in the same order; `tag` must differ from those of earlier messages
  /// that may not have arrived. The previous sum must be complete.
  void begin(const SumJob &job, char *scratch, int tag,
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
    int64_t element = 0; ///< The first element of the fragment.
    /// The number of earlier fragments.
    int64_t index = 0;

    bool isBefore(const Cursor &other) const {
      return round != other.round ? round < other.round
                                  : element < other.element;
    }
  };
  enum class Side { Send, Receive };

  /// The memory of a fragment.
  struct Fragment {
    char *data = nullptr;
    int64_t count = 0; ///< Number of elements.
  };

  RingPart partOf(Side side, int round) const;
  /// Returns a cursor at the first fragment of all rounds.
  Cursor firstOf(Side side) const;
  /// Moves a cursor that is beyond the last fragment of its round to the first
  /// fragment of the next round that has one.
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

  const SumSpan *spans_ = nullptr;
  std::size_t spanCount_ = 0;
  char *scratch_ = nullptr;
  ElementType type_ = ElementType::F32;
  int64_t count_ = 0, elementBytes_ = 0, fragmentElements_ = 0;
  int64_t scratchPitch_ = 0;
  int rank_ = 0, size_ = 1, rounds_ = 0, tag_ = 0;
  /// The next fragments to receive, to be received, to send, and to be sent.
  Cursor posted_, done_, sending_, sent_;
  std::array<MessageRequest, window> receives_, sends_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_RINGSUM_H
