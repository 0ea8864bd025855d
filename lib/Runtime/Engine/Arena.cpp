//===- Arena.cpp - The memory of a program --------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arena.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

using namespace kiln::support;

namespace kiln::runtime {

/// The size of a huge page in bytes, which is also the alignment of an arena.
static constexpr int64_t hugePageBytes = int64_t(2) << 20;

Arena::~Arena() {
  if (mapping_)
    munmap(mapping_, std::size_t(mappedBytes_));
}

Status Arena::map(int64_t bytes) {
  if (bytes > INT64_MAX / 2)
    return Status(ExitCode::OverBudget, "the arena of " +
                                            std::to_string(bytes) +
                                            " bytes exceeds the address space");
  mappedBytes_ = bytes + marginBytes + hugePageBytes;
  mapping_ = mmap(nullptr, std::size_t(mappedBytes_), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    return Status(
        ExitCode::OverBudget,
        "cannot map the arena of " + std::to_string(bytes) +
            " bytes: " + errnoText(errno) +
            "; compile with a smaller --batch or more --microbatches, "
            "or raise the limit (ulimit -v)");
  }
  auto address = reinterpret_cast<uintptr_t>(mapping_);
  address = (address + hugePageBytes - 1) & ~uintptr_t(hugePageBytes - 1);
  data_ = reinterpret_cast<char *>(address);
  bytes_ = bytes;
  // Request huge pages only for whole huge pages of planned bytes. A huge page
  // that extends beyond the planned bytes would use unplanned memory.
  int64_t wholePages = bytes & ~(hugePageBytes - 1);
  if (wholePages > 0)
    madvise(data_, std::size_t(wholePages), MADV_HUGEPAGE);
  return Status();
}

int64_t Arena::residentBytes() const {
  if (!data_)
    return 0;
  int64_t pageBytes = sysconf(_SC_PAGESIZE);
  int64_t pages = (bytes_ + marginBytes) / pageBytes;
  int64_t resident = 0;
  unsigned char present[4096];
  for (int64_t page = 0; page < pages; page += int64_t(sizeof(present))) {
    int64_t count = std::min<int64_t>(pages - page, sizeof(present));
    if (mincore(data_ + page * pageBytes, std::size_t(count * pageBytes),
                present) != 0)
      return resident;
    for (int64_t i = 0; i < count; ++i)
      resident += (present[i] & 1) * pageBytes;
  }
  return resident;
}

} // namespace kiln::runtime
