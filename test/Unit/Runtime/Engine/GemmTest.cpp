//===- GemmTest.cpp - BLAS calls in a team of threads ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <vector>

using namespace kiln::runtime;
using namespace kiln;

namespace {

size_t threadsOfThisProcess() {
  namespace fs = std::filesystem;
  return size_t(std::distance(fs::directory_iterator("/proc/self/task"),
                              fs::directory_iterator()));
}

/// prepareBlas() must make BLAS single-threaded in each thread of the team.
/// Otherwise, BLAS would split this GEMM among several threads of its own, and
/// the bits of the result would depend on the number of these threads.
TEST(GemmTest, EveryThreadComputesAloneAndTheSameBits) {
  constexpr int threads = 3;
  constexpr int64_t n = 500;
  ThreadTeam team(threads);
  prepareBlas(team);
  std::vector<float> a(n * n), b(n * n), c(threads * n * n);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = float(i % 1013) / 1013;
    b[i] = float(i % 997) / 997 - 0.5f;
  }
  size_t before = threadsOfThisProcess();
  team.forEachThread([&](int thread) {
    gemm({ElementType::F32, false, true, n, n, n,
          reinterpret_cast<char *>(a.data()), n,
          reinterpret_cast<char *>(b.data()), n,
          reinterpret_cast<char *>(c.data() + thread * n * n), n, false});
  });
  EXPECT_EQ(threadsOfThisProcess(), before);
  for (int thread = 1; thread < threads; ++thread)
    EXPECT_EQ(
        std::memcmp(c.data(), c.data() + thread * n * n, n * n * sizeof(float)),
        0);
}

} // namespace
