//===- WrittenPages.cpp - Pages of memory that were written ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WrittenPages.h"

#include <fcntl.h>
#include <iterator>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kiln::runtime {

// The definitions of <linux/userfaultfd.h> and <linux/fs.h> of Linux 6.7, which
// the headers of older distributions lack.

static constexpr int userModeOnly = 1;
static constexpr uint64_t protectsAbsentPages = uint64_t(1) << 13;
static constexpr uint64_t isAsynchronous = uint64_t(1) << 15;

namespace {

struct PageRegion {
  uint64_t begin, end, categories;
};

struct PageScan {
  uint64_t size, flags;
  uint64_t begin, end;
  uint64_t walkEnd; ///< Result: the end of the scanned addresses.
  uint64_t regions, regionCount;
  uint64_t maxPages;
  uint64_t categoriesInverted, categoriesRequired, categoriesAnyOf,
      categoriesReturned;
};

} // namespace

#define KILN_PAGEMAP_SCAN _IOWR('f', 16, PageScan)
static constexpr uint64_t protectsAgain = 1, requiresAsynchronous = 2;
static constexpr uint64_t categoryWritten = 2;

WrittenPages::WrittenPages(const char *begin, int64_t bytes)
    : begin_(begin), bytes_(bytes) {
  protection_ = int(syscall(SYS_userfaultfd, O_CLOEXEC | userModeOnly));
  pagemap_ = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  uffdio_range range = {reinterpret_cast<uintptr_t>(begin), uint64_t(bytes)};
  uffdio_api api = {UFFD_API, isAsynchronous | protectsAbsentPages, 0};
  uffdio_register add = {range, UFFDIO_REGISTER_MODE_WP, 0};
  uffdio_writeprotect protect = {range, UFFDIO_WRITEPROTECT_MODE_WP};
  if (protection_ < 0 || pagemap_ < 0 ||
      ioctl(protection_, UFFDIO_API, &api) != 0 ||
      ioctl(protection_, UFFDIO_REGISTER, &add) != 0 ||
      ioctl(protection_, UFFDIO_WRITEPROTECT, &protect) != 0)
    stop();
}

WrittenPages::~WrittenPages() { stop(); }

/// Removes the protection: the kernel does so when the userfaultfd is closed.
void WrittenPages::stop() {
  for (int *file : {&protection_, &pagemap_}) {
    if (*file >= 0)
      close(*file);
    *file = -1;
  }
}

std::vector<WrittenPages::Range> WrittenPages::take() {
  std::vector<Range> written;
  auto first = reinterpret_cast<uintptr_t>(begin_);
  PageRegion regions[256];
  PageScan scan = {};
  scan.size = sizeof(scan);
  scan.flags = protectsAgain | requiresAsynchronous;
  scan.begin = scan.walkEnd = first;
  scan.end = first + uint64_t(bytes_);
  scan.regions = reinterpret_cast<uintptr_t>(regions);
  scan.regionCount = std::size(regions);
  scan.categoriesRequired = scan.categoriesReturned = categoryWritten;
  while (isExact() && scan.walkEnd < scan.end) {
    scan.begin = scan.walkEnd;
    int count = ioctl(pagemap_, KILN_PAGEMAP_SCAN, &scan);
    if (count < 0 || scan.walkEnd <= scan.begin) {
      stop();
      break;
    }
    for (int i = 0; i < count; ++i)
      written.push_back(
          {int64_t(regions[i].begin - first), int64_t(regions[i].end - first)});
  }
  if (!isExact())
    return {{0, bytes_}};
  return written;
}

} // namespace kiln::runtime
