//===- Images.h - Selection of GPU machine code -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An executable contains its kernels as machine code for some GPU architectures
// and as PTX, which the driver compiles for newer architectures. Machine code
// runs on GPUs with the same major version of the compute capability and an
// equal or higher minor version.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_IMAGES_H
#define KILN_LIB_RUNTIME_CUDA_IMAGES_H

#include "Gpu.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"

#include <vector>

namespace kiln::runtime::cuda {

/// Returns the images that a GPU with the given compute capability can run,
/// best first: machine code before PTX; among images of one kind, higher
/// architectures before lower ones.
std::vector<const GpuImage *> suitableImages(const GpuImages &images,
                                             int64_t architecture);

/// Loads the best image that the driver accepts.
Result<LoadedModule> loadImage(const Gpu &gpu, const GpuImages &images);

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_IMAGES_H
