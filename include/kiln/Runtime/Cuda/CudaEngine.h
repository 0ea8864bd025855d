//===- CudaEngine.h - Engine of an executable for a GPU ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The Engine that runs programs on an NVIDIA GPU. The driver and its library of
// matrix products are opened by start(); nothing of CUDA is needed to link.
//
// In the kernel table, a launch with threads has the name of a kernel in the
// images, any other one a KernelFunction of the cpu.
//
// States lie in the device's memory, or in the host arena, and are worked on
// through Engine::accessState. Inputs and the outputs that training reads have
// copies on the host, which run() copies in and out. The first run of a program
// waits for every command, so that what fails is named; then its commands
// become a graph, which later runs launch as a whole.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_CUDA_CUDAENGINE_H
#define KILN_RUNTIME_CUDA_CUDAENGINE_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::runtime::cuda {

/// The kernels, for one kind of GPU. kilnc writes this struct.
struct GpuImage {
  int64_t architecture; ///< Compute capability: 90 is 9.0.
  int64_t isPtx;        ///< Text, which ends with a zero.
  const void *bytes;
  int64_t bytesSize;
};

struct GpuImages {
  const GpuImage *first;
  int64_t count;
};

/// Names under which libraries are looked for, the first that is found wins.
struct Libraries {
  std::vector<std::string> driver = {"libcuda.so.1"};
  std::vector<std::string> products = {"libcublasLt.so.13",
                                       "libcublasLt.so.12"};
  std::vector<std::string> attention = {"libcudnn.so.9"};
};

/// Parses the description. `kernels` and the images must outlive the engine.
/// `algorithmFile` is what Engine::keepAlgorithms() is given by default.
Result<std::unique_ptr<Engine>>
createCudaEngine(std::string_view json, const void *const *kernels,
                 uint64_t kernelCount, const GpuImages &images,
                 const Libraries &libraries = {},
                 const std::string &algorithmFile = {});

} // namespace kiln::runtime::cuda

#endif // KILN_RUNTIME_CUDA_CUDAENGINE_H
