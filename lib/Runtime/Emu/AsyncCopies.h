//===- AsyncCopies.h - Asynchronous copies to shared memory -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tracks asynchronous copies (cp.async) that are in flight. A copy may write
// its destination in shared memory at any time between its start and the
// thread's wait for the group of the copy. Until that wait, no access and no
// other copy may touch the destination.
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
  /// Offsets and sizes are multiples of this number of bytes.
  static constexpr int64_t unit = 4;

  struct Copy {
    int64_t to; ///< Offset in shared memory.
    const char *from;
    int64_t bytes;
    int64_t present; ///< Bytes that are copied; the rest is set to zero.
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
  /// Completes all groups of the thread except the newest `pending` groups.
  /// Returns the copies of the completed groups in order. The result is valid
  /// until the next call.
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

  /// Returns a thread with a copy in flight to one of the bytes [offset, offset
  /// + bytes), or -1 if there is none. Sets `firstByte` to the first such byte.
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
    std::vector<std::vector<Copy>> committed; ///< The oldest group is first.
  };

  void mark(const Copy &copy, int64_t owner) {
    inFlight_ += owner ? copy.bytes : -copy.bytes;
    for (int64_t i = 0; i < copy.bytes; i += unit)
      owners_[(copy.to + i) / unit] = int16_t(owner);
  }

  std::vector<Groups> groups_; ///< Indexed by thread.
  std::vector<Copy> ended_;    ///< The result of the last wait().
  /// Indexed by unit of shared memory: 1 + the thread with a copy in flight to
  /// the unit, or 0.
  std::vector<int16_t> owners_;
  int64_t inFlight_ = 0; ///< The bytes of all copies in flight.
  bool used_ = false;    ///< True if the block used copies.
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_ASYNCCOPIES_H
