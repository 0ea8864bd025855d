//===- AssemblerReport.h - Parser of the ptxas report -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ASSEMBLERREPORT_H
#define KILN_LIB_TARGET_GPU_ASSEMBLERREPORT_H

#include "kiln/Target/Gpu/Cubin.h"

namespace kiln::gpu {

/// Parses the output of `ptxas -v`. Returns the resources of the kernels in the
/// order of the output. Returns an error if the output does not report
/// `numKernels` kernels or lacks a figure of a kernel, so that a changed format
/// is not mistaken for the absence of spills.
llvm::Expected<std::vector<KernelResources>>
parseAssemblerReport(llvm::StringRef report, size_t numKernels);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ASSEMBLERREPORT_H
