//===- CudaToy.h - The toy model for a GPU ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The programs of EmuToy.h for the engine of --target=cuda, on a driver without
// a GPU. Matmuls are computed as the cpu does, so that its bits are expected,
// where a product is one tile.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_CUDA_CUDATOY_H
#define KILN_TEST_UNIT_RUNTIME_CUDA_CUDATOY_H

#include "EmuToy.h"
#include "FakeCuda.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"

namespace kiln::runtime::toy {

/// A description whose products are one tile each.
nlohmann::json withWholeMatmuls(nlohmann::json description);

/// A description of the toy, for a GPU.
nlohmann::json onCuda(const nlohmann::json &description);

/// Machine code for 8.0 and 9.0, and PTX for 8.0.
cuda::GpuImages toyImages();

/// The driver without a GPU.
cuda::Libraries fakeLibraries();

/// Settings with the products of the cpu.
fakecuda::Settings toySettings();

/// An engine for a description like that of onCuda().
Result<std::unique_ptr<Engine>>
makeCudaEngine(const nlohmann::json &description);

/// The same with a default for --gpu-algorithms.
Result<std::unique_ptr<Engine>>
makeCudaEngine(const nlohmann::json &description,
               const std::string &algorithmFile);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_CUDA_CUDATOY_H
