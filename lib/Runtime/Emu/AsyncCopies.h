//===- AsyncCopies.h - Asynchronous copies to shared memory -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tracks asynchronous copies (cp.async) that are in flight. A copy may write
// its destination in shared memory at any time between its start and the point
// at which the thread waits for the group of the copy. In that period, no other
// copy and no other access may touch the destination.
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
  /// The offsets and sizes of all copies are multiples of `unit` bytes.
  static constexpr int64_t unit = 4;

  struct Copy {
    int64_t to; ///< Offset of the destination in shared memory.
    const char *from;
    int64_t bytes;
    /// The number of bytes that are copied. The last `bytes` - `present` bytes
    /// of the destination are set to zero.
    int64_t present;
  };

  /// Removes all copies of the previous block.
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
  /// Completes all groups of copies of the thread except the `pending` newest
  /// ones. Returns the copies of the completed groups in the order of their
  /// starts. The result is valid until the next call.
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

  /// Returns a thread whose copy in flight writes to one of the bytes [offset,
  /// offset + bytes), or -1 if no copy does. Sets `firstByte` to the lowest of
  /// these bytes to which a copy writes.
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
    /// The committed groups, in the order in which they were committed.
    std::vector<std::vector<Copy>> committed;
  };

  void mark(const Copy &copy, int64_t owner) {
    inFlight_ += owner ? copy.bytes : -copy.bytes;
    for (int64_t i = 0; i < copy.bytes; i += unit)
      owners_[(copy.to + i) / unit] = int16_t(owner);
  }

  std::vector<Groups> groups_; ///< Indexed by thread.
  std::vector<Copy> ended_;    ///< The result of the last wait().
  /// For each unit of 4 bytes of shared memory, 1 + the index of the thread
  /// whose copy in flight writes to the unit, or 0 if there is none.
  std::vector<int16_t> owners_;
  /// The sum of the sizes of all copies in flight, in bytes.
  int64_t inFlight_ = 0;
  /// True if the block has started a copy or committed a group.
  bool used_ = false;
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_ASYNCCOPIES_H
