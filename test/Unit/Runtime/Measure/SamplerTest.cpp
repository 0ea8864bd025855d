//===- SamplerTest.cpp - Tests of interleaved time measurements -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sampler.h"
#include "kiln/Abi/GemmGrid.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace kiln::abi;
using namespace kiln::runtime;
using namespace kiln;

static void spin(double seconds) {
  for (double end = now() + seconds; now() < end;)
    ;
}

TEST(Sampler, TimesOnePieceOfWork) {
  Sampler sampler;
  int64_t mostRepeated = 0;
  std::size_t slow =
      sampler.add([](int64_t count) { spin(2e-3 * double(count)); });
  std::size_t fast = sampler.add([&](int64_t count) {
    mostRepeated = std::max(mostRepeated, count);
    spin(1e-6 * double(count));
  });
  double told = 0;
  sampler.run(0.05, [&](double done) {
    EXPECT_GE(done, told);
    told = done;
  });
  // Other processes can only increase the measured times, so the times for
  // which the functions spin are lower bounds.
  EXPECT_GE(sampler.seconds(slow), 2e-3);
  EXPECT_GE(sampler.seconds(fast), 1e-6);
  EXPECT_LT(sampler.seconds(fast), sampler.seconds(slow));
  EXPECT_GT(mostRepeated, 10); // One call of `fast` is too short to time.
  EXPECT_GT(told, 0);
  EXPECT_GE(sampler.rounds(), 1);
}

TEST(Sampler, EverythingHasOneSample) {
  Sampler sampler;
  std::vector<std::size_t> all;
  for (int i = 0; i < 20; ++i)
    all.push_back(
        sampler.add([](int64_t count) { spin(1e-4 * double(count)); }));
  sampler.run(1e-6, [](double) {});
  for (std::size_t number : all)
    EXPECT_GE(sampler.seconds(number), 1e-4);
  EXPECT_EQ(sampler.rounds(), 1);
}

TEST(ProductGrid, CutsLargeProductsAcrossTheirLongSide) {
  using Grid = std::pair<int64_t, int64_t>;
  EXPECT_EQ(chooseGemmGrid(64, 64, 64, false, 2), Grid(1, 1));
  EXPECT_EQ(chooseGemmGrid(256, 3072, 768, false, 2), Grid(1, 2));
  EXPECT_EQ(chooseGemmGrid(3072, 256, 768, false, 2), Grid(2, 1));
  EXPECT_EQ(chooseGemmGrid(768, 768, 768, true, 2), Grid(2, 1));
  EXPECT_EQ(chooseGemmGrid(1, 50257, 768, false, 4), Grid(1, 4));
  EXPECT_EQ(chooseGemmGrid(4096, 4096, 64, false, 16), Grid(4, 4));
}
