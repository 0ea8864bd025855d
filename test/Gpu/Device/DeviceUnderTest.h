//===- DeviceUnderTest.h - Device of the tests ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Helpers for tests of the --target=cuda engine. The tests need no compiled
// model. There are two executables with the same tests:
// - KilnDeviceTests, a part of the GPU suite, is linked with Real.cpp and uses
//   a real GPU with its driver and libraries.
// - KilnStandInTests is linked with StandIn.cpp and uses the fake driver of the
//   unit tests, so it needs no GPU.
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

/// Returns the file names of the driver and of the vendor libraries.
cuda::Libraries libraries();

/// Returns true if the device is a real GPU.
bool isReal();

/// Tells the fake driver that the test will cause a kernel fault. Must be
/// called before the engine starts. Has no effect on a real GPU.
void expectFault();

/// Gives the fake driver two devices. Has no effect on a real GPU.
void useTwoDevices();

/// Returns the PTX image of kernels.ptx.
cuda::GpuImage ptxImage();

/// Indices in the kernel table, which is the same for all engines of these
/// tests.
enum KernelIndex : int64_t { Scale, BlockSum, Fault, HostDivide };

/// The alignment of buffer offsets in bytes.
constexpr int64_t alignment = 256;

/// Creates an engine for a handwritten program description.
Result<std::unique_ptr<Engine>>
makeEngine(testing::Json description,
           const std::vector<cuda::GpuImage> &images = {ptxImage()});

/// Creates and starts an engine. Fails the test and returns null on an error.
std::unique_ptr<Engine> startEngine(const testing::Json &description);

/// Returns the elements of an input or output of program 0.
float *input(Engine &engine, std::size_t index);
float *output(Engine &engine, std::size_t index);

/// Returns pseudo-random numbers of both signs and several magnitudes, which
/// depend on the seed.
std::vector<float> numbers(int64_t count, uint64_t seed);

} // namespace kiln::runtime::devicetest

#endif // KILN_TEST_GPU_DEVICE_DEVICEUNDERTEST_H
