//===- AllocationCounter.cpp - Counting malloc and mmap -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AllocationCounter.h"

#include "kiln/Runtime/Comm/LibraryThread.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !KILN_COUNTS_ALLOCATIONS

namespace kiln::runtime {
std::optional<AllocationCounts> allocationCounts() { return std::nullopt; }
int64_t residentMappedBytes(std::initializer_list<const void *>) { return 0; }
} // namespace kiln::runtime

#else

using kiln::runtime::isLibraryThread;

namespace {
std::atomic<uint64_t> calls{0};
std::atomic<uint64_t> mapCalls{0};
std::atomic<int64_t> liveBytes{0};

/// An entry of `mappings`, the table of live anonymous mappings that
/// residentMappedBytes() reads. When the table is full, new mappings are not
/// recorded.
struct Mapping {
  std::atomic<void *> address{nullptr};
  std::size_t bytes = 0;
};
Mapping mappings[256];

void addLive(int64_t bytes) {
  if (!isLibraryThread)
    liveBytes.fetch_add(bytes, std::memory_order_relaxed);
}

void *counted(void *block) {
  if (isLibraryThread)
    return block;
  calls.fetch_add(1, std::memory_order_relaxed);
  if (block)
    addLive(int64_t(malloc_usable_size(block)));
  return block;
}

void forget(void *block) {
  if (block)
    addLive(-int64_t(malloc_usable_size(block)));
}
} // namespace

extern "C" {
// The names under which glibc exports its own allocation functions.
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

void *malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }

void *calloc(size_t count, size_t bytes) {
  return counted(__libc_calloc(count, bytes));
}

void *realloc(void *block, size_t bytes) {
  int64_t before = block ? int64_t(malloc_usable_size(block)) : 0;
  void *moved = __libc_realloc(block, bytes);
  if (moved || bytes == 0)
    addLive(-before);
  return counted(moved);
}

void *memalign(size_t alignment, size_t bytes) {
  return counted(__libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  return counted(__libc_memalign(alignment, bytes));
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
  if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 ||
      alignment == 0)
    return EINVAL;
  void *result = counted(__libc_memalign(alignment, bytes));
  if (!result)
    return ENOMEM;
  *block = result;
  return 0;
}

void free(void *block) {
  forget(block);
  __libc_free(block);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file,
           off_t offset) {
  if (!isLibraryThread)
    mapCalls.fetch_add(1, std::memory_order_relaxed);
  auto result = reinterpret_cast<void *>(
      syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
  if (result != MAP_FAILED && (flags & MAP_ANONYMOUS)) {
    for (Mapping &mapping : mappings) {
      void *empty = nullptr;
      if (mapping.address.compare_exchange_strong(empty, result)) {
        mapping.bytes = bytes;
        break;
      }
    }
  }
  return result;
}

int munmap(void *address, size_t bytes) {
  for (Mapping &mapping : mappings) {
    void *same = address;
    if (mapping.address.compare_exchange_strong(same, nullptr))
      break;
  }
  return int(syscall(SYS_munmap, address, bytes));
}
} // extern "C"

namespace kiln::runtime {

std::optional<AllocationCounts> allocationCounts() {
  AllocationCounts counts;
  counts.calls = calls.load();
  counts.mapCalls = mapCalls.load();
  counts.liveBytes = liveBytes.load();
  return counts;
}

int64_t residentMappedBytes(std::initializer_list<const void *> excluded) {
  int64_t pageBytes = sysconf(_SC_PAGESIZE);
  int64_t resident = 0;
  for (Mapping &mapping : mappings) {
    auto *begin = static_cast<char *>(mapping.address.load());
    bool counts =
        begin && std::none_of(excluded.begin(), excluded.end(),
                              [&](const void *address) {
                                return begin <= address &&
                                       address < begin + mapping.bytes;
                              });
    if (!counts)
      continue;
    for (std::size_t done = 0; done < mapping.bytes;) {
      unsigned char present[1024];
      std::size_t bytes = std::min(mapping.bytes - done,
                                   sizeof(present) * std::size_t(pageBytes));
      if (mincore(begin + done, bytes, present) != 0)
        break;
      std::size_t pages =
          (bytes + std::size_t(pageBytes) - 1) / std::size_t(pageBytes);
      for (std::size_t page = 0; page < pages; ++page)
        resident += (present[page] & 1) * pageBytes;
      done += bytes;
    }
  }
  return resident;
}

} // namespace kiln::runtime

#endif
