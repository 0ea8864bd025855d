//===- CudaProgramTest.cpp - Tests of handwritten programs ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaToy.h"
#include "HandProgram.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// Tests a program whose first two actions wait only for the start of the run.
TEST(CudaProgramTest, BeginsOnTheHost) {
  constexpr int64_t bytes = 256;
  Json commands = {
      {{"op", "fill"}, {"name", "zero"}, {"ref", host(0)}, {"bytes", bytes}},
      copyStart("in", host(0), device(0), bytes, 0),
      copyWait("in", 0),
      {{"op", "copy"},
       {"name", "result"},
       {"from", device(0)},
       {"to", device(bytes)},
       {"bytes", bytes}}};
  Json slots = {slot("h", "activation", 0, bytes, 0, 2, true),
                slot("d", "activation", 0, bytes, 1, 3),
                slot("o", "output", bytes, bytes, 3, 4)};
  Json description = handProgram(commands, slots, Json::array(),
                                 {value("o", bytes, bytes / 4)}, 2 * bytes);
  description["target"]["kind"] = "cuda";
  for (uint64_t seed = 0; seed < 10; ++seed) {
    fakecuda::Settings settings;
    settings.seed = seed;
    fakecuda::reset(settings);
    Result<std::unique_ptr<Engine>> engine = cuda::createCudaEngine(
        description.dump(), nullptr, 0, toy::toyImages(), toy::fakeLibraries());
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    Status status = (*engine)->start(1);
    ASSERT_TRUE(status.ok()) << status.message();
    auto *result = reinterpret_cast<float *>((*engine)->outputData(0, 0));
    for (int run = 0; run < 3; ++run) {
      std::fill_n(result, bytes / 4, NAN);
      status = (*engine)->run(0);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(std::all_of(result, result + bytes / 4,
                              [](float element) { return element == 0; }));
    }
    // The program has no gemm, so cuBLASLt is not loaded.
    EXPECT_EQ((*engine)->libraryName(), "Fake GPU");
    EXPECT_EQ((*engine)->memory().libraryBytes, 0);
    engine->reset();
    EXPECT_TRUE(fakecuda::violations().empty())
        << fakecuda::violations().front();
    EXPECT_TRUE(fakecuda::live().empty());
  }
}

} // namespace
