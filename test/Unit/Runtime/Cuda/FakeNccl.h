//===- FakeNccl.h - Communicators of the fake NCCL --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The memory that the ranks of a communicator of the fake NCCL share: a file
// that each of their processes maps, and whose path is the id of the
// communicator. Every rank has a slot. A collective is carried out in rounds of
// at most `slotBytes` bytes per rank:
//
//   1. A rank waits until all ranks have read the previous round, writes its
//      contribution to its own slot, and increments `posted`.
//   2. The rank waits until all ranks have posted the round, compares the
//      calls of all ranks, computes its own results from the slots in the
//      order of the ranks, and increments `taken`.
//
// Sums are the same in all runs and on all ranks, because a rank adds the slots
// in the order of the ranks. A round never blocks: where a rank would have to
// wait, the function that executes the round returns, and is called again
// later.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_CUDA_FAKENCCL_H
#define KILN_TEST_UNIT_RUNTIME_CUDA_FAKENCCL_H

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

namespace kiln::runtime::fakecuda {

enum class NcclKind : int32_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  Reduce,
  Broadcast
};

/// A call of NCCL, which must be the same on all ranks.
struct NcclCall {
  NcclKind kind = NcclKind::AllReduce;
  int32_t type = 0; ///< ncclDataType_t.
  int32_t root = 0;
  int32_t reserved = 0;
  uint64_t count = 0; ///< The argument `count` of the call.
  /// The number of collectives before this one.
  uint64_t number = 0;

  bool operator==(const NcclCall &other) const {
    return std::memcmp(this, &other, sizeof(NcclCall)) == 0;
  }
  std::string text() const;
};

inline constexpr int mostNcclRanks = 16;
inline constexpr int64_t slotBytes = int64_t(256) << 10;

struct NcclSlot {
  std::atomic<int32_t> process; ///< 0 until the rank has joined.
  std::atomic<int32_t> left;    ///< 1 after the communicator was destroyed.
  std::atomic<uint64_t> posted, taken;
  NcclCall call;
  char data[slotBytes];
};

struct NcclShared {
  std::atomic<int32_t> ranks; ///< 0 until the first rank has joined.
  NcclSlot slots[mostNcclRanks];
};

/// ncclComm_t.
struct NcclComm {
  ~NcclComm();

  NcclShared *shared = nullptr;
  int ranks = 1, rank = 0;
  /// Each captured collective has a copy of this pointer until its graph is
  /// destroyed.
  std::shared_ptr<int> graphs = std::make_shared<int>();
  /// ncclResult_t.
  int asynchronousError = 0;
  uint64_t collectives = 0; ///< Collectives that were begun.
  uint64_t rounds = 0;
  bool isBusy = false; ///< True while a collective is carried out.

  NcclSlot &slot(int of) const { return shared->slots[of]; }
  /// Returns true if a rank has ended its process or left the communicator.
  bool isAbandoned() const;
};

/// A collective that is being executed. Its buffers are given by host pointers.
struct NcclWork {
  std::shared_ptr<NcclComm> comm;
  NcclCall call;
  const char *send = nullptr;
  char *receive = nullptr;

  /// Returns 0 if the collective is complete, `pending` if it is not complete
  /// yet, and otherwise an error code.
  int advance();

private:
  bool begun_ = false, posted_ = false;
  uint64_t element_ = 0; ///< First element not combined yet.

  uint64_t elements() const;
  uint64_t roundElements() const;
  void post();
  void take();
};

/// Returns the bytes of an element, or 0 if the type is unknown.
int64_t ncclTypeBytes(int type);

} // namespace kiln::runtime::fakecuda

#endif // KILN_TEST_UNIT_RUNTIME_CUDA_FAKENCCL_H
