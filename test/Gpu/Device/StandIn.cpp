//===- StandIn.cpp - Device tests on the fake driver ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of kernels.ptx in C++, and a listener that resets the fake driver
// before every test and checks after every test that all resources were
// released and no rule of the driver's API was violated.
//
//===----------------------------------------------------------------------===//

#include "DeviceUnderTest.h"
#include "FakeCuda.h"

#include <cmath>

using namespace kiln::runtime;
using namespace kiln;

cuda::Libraries devicetest::libraries() {
  cuda::Libraries libraries;
  libraries.driver = libraries.products =
      libraries.collectives = {KILN_FAKE_CUDA};
  return libraries;
}

bool devicetest::isReal() { return false; }

static float *pointer(uint64_t device) {
  return reinterpret_cast<float *>(fakecuda::hostPointer(device));
}

static void scale(const fakecuda::Launch &launch) {
  const uint64_t *values = launch.parameters;
  for (uint64_t i = 0; i < values[3]; ++i)
    pointer(values[1])[i] =
        std::fma(pointer(values[0])[i], 3.0f, float(int64_t(values[2])));
}

static void blockSum(const fakecuda::Launch &launch) {
  const uint64_t *values = launch.parameters;
  for (uint64_t block = 0; block < launch.blocks; ++block) {
    float parts[32] = {};
    for (uint64_t i = 0; i < 32 && 32 * block + i < values[2]; ++i)
      parts[31 - i] = pointer(values[0])[32 * block + i];
    for (int64_t half = 16; half > 0; half /= 2)
      for (int64_t i = 0; i < half; ++i)
        parts[i] += parts[i + half];
    pointer(values[1])[block] = parts[0];
  }
}

void devicetest::expectFault() {
  fakecuda::Settings settings;
  settings.faultyKernel = "fault";
  fakecuda::reset(settings);
}

void devicetest::useTwoDevices() {
  fakecuda::Settings settings;
  settings.devices = 2;
  fakecuda::reset(settings);
}

namespace {

class FreshDriver final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo &) override {
    fakecuda::reset();
    fakecuda::addKernel("scale", {4, scale});
    fakecuda::addKernel("block_sum", {3, blockSum});
    fakecuda::addKernel("fault", {2, [](const fakecuda::Launch &) {}});
  }
  void OnTestEnd(const ::testing::TestInfo &) override {
    EXPECT_TRUE(fakecuda::violations().empty())
        << fakecuda::violations().front();
    EXPECT_TRUE(fakecuda::live().empty())
        << fakecuda::live().begin()->first << " was not released";
  }
};

} // namespace

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::UnitTest::GetInstance()->listeners().Append(new FreshDriver);
  return RUN_ALL_TESTS();
}
