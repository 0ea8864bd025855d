//===- WrittenPages.h - Pages of memory that were written -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks the kernel which pages of a memory range were written, so that the
// memory check compares only these pages. The pages are write-protected; the
// kernel removes the protection at the first write, and reports the pages
// without protection (asynchronous write protection of userfaultfd and the
// ioctl PAGEMAP_SCAN, since Linux 6.7). Writes by system calls, such as read(),
// are found, too. Writes of devices to memory that was pinned before are not.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_WRITTENPAGES_H
#define KILN_LIB_RUNTIME_ENGINE_WRITTENPAGES_H

#include <cstdint>
#include <vector>

namespace kiln::runtime {

class WrittenPages {
public:
  /// Watches [begin, begin + bytes) from now on, which must be memory of a
  /// private anonymous mapping. `begin` and `bytes` must be multiples of the
  /// page size.
  WrittenPages(const char *begin, int64_t bytes);
  ~WrittenPages();
  WrittenPages(const WrittenPages &) = delete;
  WrittenPages &operator=(const WrittenPages &) = delete;

  /// Offsets from the start of the memory range.
  struct Range {
    int64_t begin, end;
  };
  /// Returns ranges of whole pages, in ascending order, that contain all bytes
  /// written since the last call, or since the construction. If the kernel
  /// cannot tell, returns the whole memory range.
  std::vector<Range> take();

  /// Returns false if take() returns the whole memory range because the kernel
  /// does not support this, or does not permit it.
  bool isExact() const { return protection_ >= 0; }

private:
  void stop();

  const char *begin_;
  int64_t bytes_;
  /// File descriptors of the userfaultfd and of /proc/self/pagemap, or -1.
  int protection_ = -1, pagemap_ = -1;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_WRITTENPAGES_H
