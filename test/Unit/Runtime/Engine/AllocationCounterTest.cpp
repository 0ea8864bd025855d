//===- AllocationCounterTest.cpp - Tests of allocation counts -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AllocationCounter.h"

#include "Gemm.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

using namespace kiln::runtime;
using namespace kiln;

namespace {

class AllocationCounterTest : public testing::Test {
protected:
  void SetUp() override {
#if KILN_COUNTS_ALLOCATIONS
    ASSERT_TRUE(allocationCounts()) << "this build has no sanitizer, so that "
                                       "every allocator call must be counted";
#else
    ASSERT_FALSE(allocationCounts());
    GTEST_SKIP() << "a sanitizer brings its own allocator";
#endif
  }
};

TEST_F(AllocationCounterTest, SeesEveryWayToAllocate) {
  AllocationCounts before = *allocationCounts();
  void *blocks[6] = {};
  blocks[0] = std::malloc(100);
  blocks[1] = std::calloc(10, 10);
  blocks[2] = std::realloc(nullptr, 100);
  blocks[2] = std::realloc(blocks[2], 100'000);
  blocks[3] = std::aligned_alloc(64, 128);
  EXPECT_EQ(posix_memalign(&blocks[4], 64, 100), 0);
  blocks[5] = ::operator new(100);
  AllocationCounts during = *allocationCounts();
  EXPECT_EQ(during.calls - before.calls, 7u);
  EXPECT_GE(during.liveBytes - before.liveBytes, 100'000 + 5 * 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks[3]) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks[4]) % 64, 0u);
  for (void *block : blocks)
    std::free(block);
  EXPECT_EQ(allocationCounts()->liveBytes, before.liveBytes);
}

TEST_F(AllocationCounterTest, RefusesWhatTheCLibraryRefuses) {
  void *block = nullptr;
  EXPECT_EQ(posix_memalign(&block, 3, 100), EINVAL);
  volatile size_t huge = SIZE_MAX / 2;
  EXPECT_EQ(std::malloc(huge), nullptr);
  EXPECT_EQ(std::calloc(huge, 4), nullptr);
}

TEST_F(AllocationCounterTest, BlasAllocatesNothingOncePrepared) {
  ThreadTeam team(3);
  prepareBlas(team);
  constexpr int64_t n = 400;
  std::vector<float> a(n * n, 1.0f), b(n * n, 1.0f), c(3 * n * n);
  AllocationCounts before = *allocationCounts();
  int64_t residentBefore = residentMappedBytes({});
  for (int round = 0; round < 4; ++round)
    team.forEachPart(3, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        gemm({ElementType::F32, false, true, n, n, n,
              reinterpret_cast<char *>(a.data()), n,
              reinterpret_cast<char *>(b.data()), n,
              reinterpret_cast<char *>(c.data() + i * n * n), n, false});
    });
  AllocationCounts after = *allocationCounts();
  EXPECT_EQ(after.calls, before.calls);
  EXPECT_EQ(after.mapCalls, before.mapCalls);
  // BLAS packs operands into its own buffers, which are reported as "library".
  EXPECT_GT(residentMappedBytes({}), residentBefore);
  EXPECT_EQ(c.front(), float(n));
  EXPECT_EQ(c.back(), float(n));
}

} // namespace
