//===- CudaEngine.h - Execution engine for NVIDIA GPUs ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An Engine that runs programs on an NVIDIA GPU. start() loads the CUDA driver
// and the vendor libraries (cuBLASLt, cuDNN, NCCL) with dlopen, so that linking
// an executable needs no part of CUDA.
//
// If a program was compiled for several ranks, the engine must join() a World
// (the connections to the other ranks) before start(). Each rank has a GPU of
// its own. NCCL executes the collectives of commands; the World transfers the
// ids of NCCL's communicators between ranks.
//
// For a GPU kernel (Command::threads > 0), the entry in the kernel table is the
// name of the kernel in the GPU images. For a host kernel, the entry is a
// KernelFunction.
//
// States are stored in device memory or in the host arena and are accessed
// through Engine::accessState. Inputs, and outputs other than gradients, have
// copies in host memory; run() transfers them. The first run of a program
// synchronizes after every command, so that an error names the command that
// failed. The commands are then captured into a CUDA graph, which later runs
// launch as a whole.
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

/// The kernels compiled for one GPU architecture. kilnc emits arrays of this
/// struct into the executable.
struct GpuImage {
  int64_t architecture; ///< Compute capability times 10: 90 for 9.0.
  int64_t isPtx;        ///< 1: NUL-terminated PTX; 0: machine code.
  const void *bytes;
  int64_t bytesSize;
};

struct GpuImages {
  const GpuImage *first;
  int64_t count;
};

/// The file names of each library, in search order. The first file that can be
/// loaded is used.
struct Libraries {
  std::vector<std::string> driver = {"libcuda.so.1"};
  std::vector<std::string> products = {"libcublasLt.so.13",
                                       "libcublasLt.so.12"};
  std::vector<std::string> attention = {"libcudnn.so.9"};
  /// Opened only if there are several ranks.
  std::vector<std::string> collectives = {"libnccl.so.2"};
};

/// Creates an engine for the program description `json`, whose target must be a
/// CUDA GPU. `kernels` is the kernel table. `kernels` and the bytes of the
/// images must outlive the engine. `algorithmFile` is the path of the matmul
/// algorithm file (Engine::keepAlgorithms); if it is empty, cuBLASLt's
/// heuristic chooses the algorithms. Returns an error if the description is
/// invalid, has a target other than a CUDA GPU, or a mesh with unknown axes.
Result<std::unique_ptr<Engine>>
createCudaEngine(std::string_view json, const void *const *kernels,
                 uint64_t kernelCount, const GpuImages &images,
                 const Libraries &libraries = {},
                 const std::string &algorithmFile = {});

} // namespace kiln::runtime::cuda

#endif // KILN_RUNTIME_CUDA_CUDAENGINE_H
