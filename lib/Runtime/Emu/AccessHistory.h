//===- AccessHistory.h - Who may have raced on a cell -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The accesses to one cell of memory within one launch, as far as they decide
// whether a later one races. Two accesses are ordered if the same thread made
// them, or two threads of a block with a barrier between, that is in different
// epochs of the block. Blocks run one after the other, so the epochs of the
// accesses to a cell never go back within a block, and a block that another one
// followed never comes again.
//
// One write is enough to remember: what is ordered after the last write is
// ordered after all that came before it. Of the reads since then two are
// enough. They are either of two threads in one epoch, or of two blocks: every
// other write races with one of the two.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_ACCESSHISTORY_H
#define KILN_LIB_RUNTIME_EMU_ACCESSHISTORY_H

#include <cstdint>

namespace kiln::runtime::emu {

/// A thread at a time, in 64 bits; 0 is nobody.
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
  /// Whether nothing orders this access and a later one by `other`.
  bool races(Accessor other) const {
    return bits_ && bits_ != other.bits_ &&
           (sameEpoch(other) || !sameBlock(other));
  }

private:
  uint64_t bits_ = 0;
};

struct AccessHistory {
  Accessor write;
  Accessor reads[2]; ///< The newer one first.

  /// Adds an access, unless it races with an earlier one: that one is the
  /// answer then, and `otherWrote` says what it did.
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
