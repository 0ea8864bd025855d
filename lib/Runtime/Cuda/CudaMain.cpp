//===- CudaMain.cpp - main() of executables for NVIDIA GPUs ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlgorithmFile.h"
#include "Executable.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"

extern "C" {
extern const kiln::runtime::cuda::GpuImage kiln_gpu_images[];
extern const uint64_t kiln_gpu_image_count;
}

static kiln::Result<std::unique_ptr<kiln::runtime::Engine>>
createEngine(std::string_view json, const void *const *kernels,
             uint64_t kernelCount) {
  return kiln::runtime::cuda::createCudaEngine(
      json, kernels, kernelCount,
      {kiln_gpu_images, int64_t(kiln_gpu_image_count)}, {},
      kiln::runtime::cuda::defaultAlgorithmFile());
}

int main(int argc, char **argv) {
  return kiln::runtime::runExecutable(createEngine, argc, argv);
}
