//===- DeviceUnderTest.h - The GPU that these tests run on ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tests of the engine of --target=cuda that need no compiled model: on a
// real GPU, with its driver and libraries (KilnDeviceTests, part of the GPU
// suite), or on the driver without a GPU of the unit tests, so that the tests
// themselves are tested everywhere. Which one is decided by the file that is
// linked: Real.cpp or StandIn.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_GPU_DEVICE_DEVICEUNDERTEST_H
#define KILN_TEST_GPU_DEVICE_DEVICEUNDERTEST_H

#include "HandProgram.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace kiln::runtime::devicetest {

/// Where the driver and cuBLASLt are.
cuda::Libraries libraries();

/// Whether it is a GPU.
bool isReal();

/// Before a test that lets a kernel fault, which a stand-in must be told of.
void expectFault();

/// The kernels of kernels.ptx, which the driver compiles.
cuda::GpuImage ptxImage();

/// Indexes of the kernels in every engine of these tests.
enum KernelIndex : int64_t { Scale, BlockSum, Fault, HostDivide };

/// Offsets, in bytes, are multiples of this.
constexpr int64_t alignment = 256;

/// An engine for a program by hand.
Result<std::unique_ptr<Engine>>
makeEngine(testing::Json description,
           const std::vector<cuda::GpuImage> &images = {ptxImage()});

/// The same, started; fails the test when it cannot be.
std::unique_ptr<Engine> startEngine(const testing::Json &description);

/// Elements of program 0's inputs and outputs.
float *input(Engine &engine, std::size_t index);
float *output(Engine &engine, std::size_t index);

/// Numbers of either sign and several magnitudes, anew for every seed.
std::vector<float> numbers(int64_t count, uint64_t seed);

} // namespace kiln::runtime::devicetest

#endif // KILN_TEST_GPU_DEVICE_DEVICEUNDERTEST_H
