//===- WrittenPagesTest.cpp - Pages of memory that were written -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every page that was written is found, whether or not the kernel can tell
// which pages these are. If it can, no other page is found.
//
//===----------------------------------------------------------------------===//

#include "WrittenPages.h"

#include "gtest/gtest.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

using namespace kiln::runtime;

namespace {

constexpr int64_t pageBytes = 4096, pageCount = 1024;

/// Returns true if the kernel supports asynchronous write protection, and
/// permits this process to use it.
bool kernelCanTell() {
  utsname system;
  int major = 0, minor = 0;
  uname(&system);
  std::sscanf(system.release, "%d.%d", &major, &minor);
  int file = int(syscall(SYS_userfaultfd, /*UFFD_USER_MODE_ONLY*/ 1));
  if (file < 0)
    return false;
  close(file);
  return major > 6 || (major == 6 && minor >= 7);
}

class WrittenPagesTest : public testing::Test {
protected:
  WrittenPagesTest()
      : memory(static_cast<char *>(mmap(nullptr, pageCount * pageBytes,
                                        PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~WrittenPagesTest() override { munmap(memory, pageCount * pageBytes); }

  /// Requires that take() returns the pages in `expected`, or all pages if the
  /// kernel cannot tell which pages were written.
  static void expectTaken(WrittenPages &watch,
                          const std::set<int64_t> &expected) {
    std::set<int64_t> found;
    int64_t last = -1;
    for (const WrittenPages::Range &range : watch.take()) {
      EXPECT_GT(range.begin, last);
      last = range.end - 1;
      for (int64_t at = range.begin; at < range.end; at += pageBytes)
        found.insert(at / pageBytes);
    }
    EXPECT_EQ(watch.isExact(), kernelCanTell());
    if (watch.isExact())
      EXPECT_EQ(found, expected);
    else
      EXPECT_EQ(int64_t(found.size()), pageCount);
  }

  char *memory;
};

} // namespace

TEST_F(WrittenPagesTest, FindsWrites) {
  ASSERT_NE(memory, MAP_FAILED);
  // Half of the pages are present.
  for (int64_t page = 0; page < pageCount / 2; ++page)
    memory[page * pageBytes] = 1;
  WrittenPages watch(memory, pageCount * pageBytes);
  expectTaken(watch, {});
  memory[3 * pageBytes] = 2;
  memory[4 * pageBytes - 1] = 2;
  memory[4 * pageBytes] = 2;
  memory[700 * pageBytes + 17] = 2;
  expectTaken(watch, {3, 4, 700});
  expectTaken(watch, {});
  memory[3 * pageBytes] = 2; // Writes the same value again.
  memory[(pageCount - 1) * pageBytes] = 0;
  expectTaken(watch, {3, pageCount - 1});
  EXPECT_EQ(memory[700 * pageBytes + 17], 2);
}

TEST_F(WrittenPagesTest, FindsWritesOfSystemCalls) {
  ASSERT_NE(memory, MAP_FAILED);
  WrittenPages watch(memory, pageCount * pageBytes);
  int zeros = open("/dev/zero", O_RDONLY);
  ASSERT_GE(zeros, 0);
  EXPECT_EQ(read(zeros, memory + 10 * pageBytes - 1, 2), 2);
  close(zeros);
  expectTaken(watch, {9, 10});
}

// There are more ranges of written pages than one call of the kernel returns.
TEST_F(WrittenPagesTest, FindsManyRanges) {
  ASSERT_NE(memory, MAP_FAILED);
  WrittenPages watch(memory, pageCount * pageBytes);
  std::set<int64_t> expected;
  for (int64_t page = 0; page < pageCount; page += 2) {
    memory[page * pageBytes] = 1;
    expected.insert(page);
  }
  expectTaken(watch, expected);
  expectTaken(watch, {});
}

// Arenas consist of huge pages, all of which are present.
TEST(WrittenHugePagesTest, FindsSmallPages) {
  constexpr int64_t hugeBytes = int64_t(2) << 20;
  void *mapping = mmap(nullptr, 4 * hugeBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  auto address = reinterpret_cast<uintptr_t>(mapping);
  auto *memory = static_cast<char *>(mapping) + (-address & (hugeBytes - 1));
  madvise(memory, 3 * hugeBytes, MADV_HUGEPAGE);
  std::memset(memory, 1, 3 * hugeBytes);
  WrittenPages watch(memory, 3 * hugeBytes);
  EXPECT_EQ(watch.isExact(), kernelCanTell());
  memory[hugeBytes + 5 * pageBytes] = 2;
  std::vector<WrittenPages::Range> written = watch.take();
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(watch.isExact(), kernelCanTell());
  if (watch.isExact()) {
    EXPECT_EQ(written[0].begin, hugeBytes + 5 * pageBytes);
    EXPECT_EQ(written[0].end, hugeBytes + 6 * pageBytes);
  }
  munmap(mapping, 4 * hugeBytes);
}

// The memory can be watched again.
TEST_F(WrittenPagesTest, EndsWithTheObject) {
  ASSERT_NE(memory, MAP_FAILED);
  for (int round = 0; round < 2; ++round) {
    WrittenPages watch(memory, pageCount * pageBytes);
    memory[round * pageBytes] = 1;
    expectTaken(watch, {round});
  }
}
