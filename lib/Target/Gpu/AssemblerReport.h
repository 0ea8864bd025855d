//===- AssemblerReport.h - What ptxas says of kernels -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ASSEMBLERREPORT_H
#define KILN_LIB_TARGET_GPU_ASSEMBLERREPORT_H

#include "kiln/Target/Gpu/Cubin.h"

namespace kiln::gpu {

/// Reads the output of `ptxas -v`, the kernels in its order. Fails when it is
/// not about `numKernels` or when one lacks a figure, so that a changed format
/// is not read as no spills.
llvm::Expected<std::vector<KernelResources>>
parseAssemblerReport(llvm::StringRef report, size_t numKernels);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ASSEMBLERREPORT_H
