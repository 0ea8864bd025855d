//===- AccessHistory.h - Access history of a memory cell --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stores the accesses to one memory cell within a launch that are needed to
// detect races with later accesses. An epoch of a block is the time between two
// consecutive barriers. Two accesses are ordered if the same thread makes them,
// or if two threads of one block make them in different epochs. Blocks run one
// after another: when a block has started, no earlier block resumes, and within
// a block the epoch never decreases.
//
// Of the writes, only the last one is stored: an access that is ordered after
// the last write is also ordered after all accesses before that write. Of the
// reads since the last write, at most two are stored: one from the newest epoch
// with a read, and one by another thread in that epoch or by another block. If
// a write races with any read since the last write, it races with one of these
// two.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_ACCESSHISTORY_H
#define KILN_LIB_RUNTIME_EMU_ACCESSHISTORY_H

#include <cstdint>

namespace kiln::runtime::emu {

/// A block, an epoch of the block (the time between two consecutive barriers),
/// and a thread of the block, packed into 64 bits; 0 means none.
class Accessor {
public:
  static constexpr int64_t maxEpoch = (1 << 21) - 1;

  Accessor() = default;
  Accessor(int64_t block, int64_t epoch, int64_t thread)
      : bits_(uint64_t(block) << 32 | uint64_t(epoch) << 11 |
              uint64_t(thread + 1)) {}

  explicit operator bool() const { return bits_ != 0; }
  bool operator==(Accessor other) const { return bits_ == other.bits_; }
  int64_t block() const { return int64_t(bits_ >> 32); }
  int64_t thread() const { return int64_t(bits_ & 0x7ff) - 1; }

  bool sameBlock(Accessor other) const {
    return (bits_ ^ other.bits_) >> 32 == 0;
  }
  bool sameEpoch(Accessor other) const {
    return (bits_ ^ other.bits_) >> 11 == 0;
  }
  /// Returns true if this access and a later access by `other` are not ordered.
  bool races(Accessor other) const {
    return bits_ && bits_ != other.bits_ &&
           (sameEpoch(other) || !sameBlock(other));
  }

private:
  uint64_t bits_ = 0;
};

struct AccessHistory {
  Accessor write;
  /// The reads since the last write that are needed to detect a race with a
  /// later write. reads[0] is from the newest epoch with a read; see the top of
  /// this file.
  Accessor reads[2];

  /// If the new access by `now` races with an earlier access, returns the
  /// accessor of the earlier access, and sets `otherWrote` to true if the
  /// earlier access is a write, or to false if it is a read. If there is no
  /// race, records the new access and returns an empty Accessor.
  Accessor add(Accessor now, bool isWrite, bool &otherWrote) {
    otherWrote = true;
    if (write.races(now))
      return write;
    if (!isWrite) {
      addRead(now);
      return {};
    }
    otherWrote = false;
    for (Accessor read : reads)
      if (read.races(now))
        return read;
    write = now;
    reads[0] = reads[1] = {};
    return {};
  }

private:
  void addRead(Accessor now) {
    if (reads[0] == now)
      return;
    if (!reads[0]) {
      reads[0] = now;
    } else if (!reads[0].sameBlock(now)) {
      reads[1] = reads[0];
      reads[0] = now;
    } else if (!reads[0].sameEpoch(now)) {
      reads[0] = now;
      if (reads[1].sameBlock(now))
        reads[1] = {};
    } else if (!reads[1]) {
      reads[1] = now;
    }
  }
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_ACCESSHISTORY_H
