//===- Images.h - Machine code for the GPU at hand --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An executable holds its kernels as machine code for some GPUs and as PTX,
// from which the driver makes machine code for newer ones. Machine code runs on
// GPUs of its major version from its minor version on.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_IMAGES_H
#define KILN_LIB_RUNTIME_CUDA_IMAGES_H

#include "Gpu.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"

#include <vector>

namespace kiln::runtime::cuda {

/// The images that a GPU of this compute capability may run, best first: its
/// own machine code, that of the nearest older one of its major version, PTX.
std::vector<const GpuImage *> suitableImages(const GpuImages &images,
                                             int64_t architecture);

/// Loads the best image that the driver takes.
Result<LoadedModule> loadImage(const Gpu &gpu, const GpuImages &images);

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_IMAGES_H
