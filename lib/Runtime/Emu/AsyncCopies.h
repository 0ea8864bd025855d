//===- AsyncCopies.h - Copies on their way to shared memory -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread's copies arrive at any time between their beginning and the thread's
// wait for them. So no byte of shared memory that one is on its way to may be
// touched: not read, not written, and not by another copy.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_ASYNCCOPIES_H
#define KILN_LIB_RUNTIME_EMU_ASYNCCOPIES_H

#include <cstdint>
#include <utility>
#include <vector>

namespace kiln::runtime::emu {

class AsyncCopies {
public:
  /// What sizes and places are multiples of.
  static constexpr int64_t unit = 4;

  struct Copy {
    int64_t to; ///< Offset in shared memory.
    const char *from;
    int64_t bytes;
    int64_t present; ///< Of these; zeros follow.
  };

  /// Forgets all copies of the block before.
  void beginBlock(int64_t threads, int64_t sharedBytes) {
    if (used_ || groups_.size() != size_t(threads) ||
        owners_.size() != size_t(sharedBytes / unit + 1)) {
      groups_.assign(threads, {});
      owners_.assign(sharedBytes / unit + 1, 0);
    }
    used_ = false;
    inFlight_ = 0;
  }

  void begin(int64_t thread, const Copy &copy) {
    used_ = true;
    groups_[thread].open.push_back(copy);
    mark(copy, thread + 1);
  }
  void commit(int64_t thread) {
    used_ = true;
    Groups &groups = groups_[thread];
    groups.committed.push_back(std::move(groups.open));
    groups.open.clear();
  }
  /// The copies that a wait for all but `pending` groups ends, in order; they
  /// are no longer on their way. Valid until the next wait.
  const std::vector<Copy> &wait(int64_t thread, int64_t pending) {
    ended_.clear();
    auto &committed = groups_[thread].committed;
    int64_t count = int64_t(committed.size()) - pending;
    for (int64_t i = 0; i < count; ++i)
      for (const Copy &copy : committed[i]) {
        mark(copy, 0);
        ended_.push_back(copy);
      }
    if (count > 0)
      committed.erase(committed.begin(), committed.begin() + count);
    return ended_;
  }

  /// A thread with a copy on its way to one of the bytes from `offset` on, or
  /// -1; the first such byte.
  int64_t findOwner(int64_t offset, int64_t bytes, int64_t &firstByte) const {
    if (inFlight_ == 0)
      return -1;
    for (int64_t i = offset / unit; i * unit < offset + bytes; ++i)
      if (owners_[i]) {
        firstByte = i * unit < offset ? offset : i * unit;
        return owners_[i] - 1;
      }
    return -1;
  }

private:
  struct Groups {
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> committed; ///< The oldest first.
  };

  void mark(const Copy &copy, int64_t owner) {
    inFlight_ += owner ? copy.bytes : -copy.bytes;
    for (int64_t i = 0; i < copy.bytes; i += unit)
      owners_[(copy.to + i) / unit] = int16_t(owner);
  }

  std::vector<Groups> groups_;  ///< By thread.
  std::vector<Copy> ended_;     ///< By the last wait.
  std::vector<int16_t> owners_; ///< Of shared memory: 0, or thread + 1.
  int64_t inFlight_ = 0;        ///< Bytes.
  bool used_ = false;           ///< In this block.
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_ASYNCCOPIES_H
