//===- CudaToy.h - Toy model for the CUDA engine ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the programs of EmuToy.h with the engine of --target=cuda on the fake
// driver. The CPU's GEMM computes matmuls, so that a matmul of one tile gives
// the same bits as on the CPU engine.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_CUDA_CUDATOY_H
#define KILN_TEST_UNIT_RUNTIME_CUDA_CUDATOY_H

#include "EmuToy.h"
#include "FakeCuda.h"
#include "kiln/Runtime/Cuda/CudaEngine.h"

namespace kiln::runtime::toy {

/// Returns a copy of the description in which each gemm is one tile.
nlohmann::json withWholeMatmuls(nlohmann::json description);

/// Converts a description of the toy model to the target cuda.
nlohmann::json onCuda(const nlohmann::json &description);

/// Returns machine code for compute capabilities 8.0 and 9.0, and PTX for 8.0.
cuda::GpuImages toyImages();

/// Returns the names of the fake driver and libraries.
cuda::Libraries fakeLibraries();

/// Returns settings in which the CPU's GEMM computes matmuls.
fakecuda::Settings toySettings();

/// Creates an engine for a description that onCuda() returned.
Result<std::unique_ptr<Engine>>
makeCudaEngine(const nlohmann::json &description);

/// Creates an engine with `algorithmFile` as the default of --gpu-algorithms.
Result<std::unique_ptr<Engine>>
makeCudaEngine(const nlohmann::json &description,
               const std::string &algorithmFile);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_CUDA_CUDATOY_H
