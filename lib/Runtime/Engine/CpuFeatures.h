//===- CpuFeatures.h - Check of the CPU features of kernels -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_CPUFEATURES_H
#define KILN_LIB_RUNTIME_ENGINE_CPUFEATURES_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Support/Status.h"

#include <string>

namespace kiln::runtime {

/// Fails if this CPU lacks a feature that the kernels were compiled for; the
/// message lists the missing features. `cpuinfo` is the text of /proc/cpuinfo.
/// If it has no "flags" line, the check succeeds.
Status checkCpuFeatures(const TargetInfo &target, const std::string &cpuinfo);

/// Returns the text of /proc/cpuinfo, up to the end of the first processor.
std::string readCpuInfo();

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_CPUFEATURES_H
