//===- FakeNcclWork.cpp - Collectives of the fake NCCL --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeNccl.h"

#include "FakeState.h"

#include <algorithm>
#include <csignal>
#include <sys/mman.h>
#include <vector>

namespace kiln::runtime::fakecuda {

int64_t ncclTypeBytes(int type) {
  switch (type) {
  case 0: // ncclInt8
    return 1;
  case 6: // ncclFloat16
  case 9: // ncclBfloat16
    return 2;
  case 7: // ncclFloat32
    return 4;
  case 8: // ncclFloat64
    return 8;
  }
  return 0;
}

std::string NcclCall::text() const {
  static const char *names[] = {"ncclAllReduce", "ncclReduceScatter",
                                "ncclAllGather", "ncclReduce", "ncclBroadcast"};
  return std::string(names[int(kind)]) + " of " + std::to_string(count) +
         " elements of type " + std::to_string(type) + " with root " +
         std::to_string(root) + " as collective " + std::to_string(number);
}

NcclComm::~NcclComm() {
  if (!shared)
    return;
  slot(rank).left = 1;
  ::munmap(shared, sizeof(NcclShared));
}

bool NcclComm::isAbandoned() const {
  for (int i = 0; i < ranks; ++i) {
    const NcclSlot &other = slot(i);
    if (i != rank &&
        (other.left || (other.process && ::kill(other.process, 0) != 0)))
      return true;
  }
  return false;
}

/// Adds the elements of all ranks in the order of the ranks.
template <typename T>
static void addAll(const std::vector<const char *> &from, char *to,
                   uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    T sum = {};
    for (std::size_t rank = 0; rank < from.size(); ++rank) {
      T value;
      std::memcpy(&value, from[rank] + i * sizeof(T), sizeof(T));
      sum = rank == 0 ? value : T(sum + value);
    }
    std::memcpy(to + i * sizeof(T), &sum, sizeof(T));
  }
}

/// Adds the bf16 elements of all ranks in the order of the ranks. Rounds each
/// sum to bf16, ties to even.
static void addAllBf16(const std::vector<const char *> &from, char *to,
                       uint64_t count) {
  auto widen = [](uint16_t half) {
    uint32_t bits = uint32_t(half) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  };
  auto narrow = [](float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (value != value)
      return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  };
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t sum = 0;
    for (std::size_t rank = 0; rank < from.size(); ++rank) {
      uint16_t value;
      std::memcpy(&value, from[rank] + i * 2, 2);
      sum = rank == 0 ? value : narrow(widen(sum) + widen(value));
    }
    std::memcpy(to + i * 2, &sum, 2);
  }
}

static void addAll(int type, const std::vector<const char *> &from, char *to,
                   uint64_t count) {
  switch (type) {
  case 0:
    return addAll<int8_t>(from, to, count);
  case 6:
    return addAll<_Float16>(from, to, count);
  case 7:
    return addAll<float>(from, to, count);
  case 8:
    return addAll<double>(from, to, count);
  case 9:
    return addAllBf16(from, to, count);
  }
}

/// Returns the number of elements that a rank contributes.
uint64_t NcclWork::elements() const {
  return call.kind == NcclKind::ReduceScatter
             ? call.count * uint64_t(comm->ranks)
             : call.count;
}

uint64_t NcclWork::roundElements() const {
  return std::min(uint64_t(slotBytes / ncclTypeBytes(call.type)),
                  elements() - element_);
}

void NcclWork::post() {
  NcclSlot &own = comm->slot(comm->rank);
  own.call = call;
  auto bytes = uint64_t(ncclTypeBytes(call.type));
  if (call.kind != NcclKind::Broadcast || call.root == comm->rank)
    std::memcpy(own.data, send + element_ * bytes, roundElements() * bytes);
  own.posted.store(comm->rounds + 1, std::memory_order_release);
}

void NcclWork::take() {
  auto bytes = uint64_t(ncclTypeBytes(call.type));
  uint64_t begin = element_, end = element_ + roundElements();
  auto rank = uint64_t(comm->rank);
  auto allFrom = [&](uint64_t offset) {
    std::vector<const char *> from;
    for (int i = 0; i < comm->ranks; ++i)
      from.push_back(comm->slot(i).data + offset * bytes);
    return from;
  };
  switch (call.kind) {
  case NcclKind::AllReduce:
    return addAll(call.type, allFrom(0), receive + begin * bytes, end - begin);
  case NcclKind::Reduce:
    if (call.root == comm->rank)
      addAll(call.type, allFrom(0), receive + begin * bytes, end - begin);
    return;
  case NcclKind::ReduceScatter: {
    uint64_t first = std::max(begin, rank * call.count);
    uint64_t last = std::min(end, (rank + 1) * call.count);
    if (first < last)
      addAll(call.type, allFrom(first - begin),
             receive + (first - rank * call.count) * bytes, last - first);
    return;
  }
  case NcclKind::AllGather:
    for (int i = 0; i < comm->ranks; ++i)
      std::memcpy(receive + (uint64_t(i) * call.count + begin) * bytes,
                  comm->slot(i).data, (end - begin) * bytes);
    return;
  case NcclKind::Broadcast:
    std::memcpy(receive + begin * bytes, comm->slot(call.root).data,
                (end - begin) * bytes);
    return;
  }
}

int NcclWork::advance() {
  if (!begun_) {
    if (comm->isBusy) {
      violate("two collectives of a communicator run at the same time");
      return 1;
    }
    begun_ = comm->isBusy = true;
    call.number = comm->collectives++;
  }
  auto all = [&](std::atomic<uint64_t> NcclSlot::*counter, uint64_t wanted) {
    for (int i = 0; i < comm->ranks; ++i)
      if ((comm->slot(i).*counter).load(std::memory_order_acquire) < wanted)
        return false;
    return true;
  };
  auto waits = [&] {
    if (!state().settings.ncclIsSilent && comm->isAbandoned())
      comm->asynchronousError = 6; // ncclRemoteError
    return pending;
  };
  while (element_ < elements()) {
    if (!posted_) {
      if (!all(&NcclSlot::taken, comm->rounds))
        return waits();
      post();
      posted_ = true;
    }
    if (!all(&NcclSlot::posted, comm->rounds + 1))
      return waits();
    for (int i = 0; i < comm->ranks; ++i)
      if (!(comm->slot(i).call == call)) {
        violate("rank " + std::to_string(comm->rank) + " called " +
                call.text() + ", but rank " + std::to_string(i) + " called " +
                comm->slot(i).call.text());
        return 1;
      }
    take();
    uint64_t count = roundElements();
    comm->slot(comm->rank)
        .taken.store(++comm->rounds, std::memory_order_release);
    element_ += count;
    posted_ = false;
  }
  comm->isBusy = false;
  begun_ = false;
  element_ = 0;
  return 0;
}

} // namespace kiln::runtime::fakecuda
