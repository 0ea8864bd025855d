//===- CpuFeatures.h - Can this CPU run the kernels? ------------*- C++ -*-===//
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

/// Fails with one line that names what is missing when this CPU lacks a feature
/// that the kernels were compiled for. `cpuinfo` is the text of /proc/cpuinfo;
/// without its "flags" line nothing can be checked and nothing is refused.
Status checkCpuFeatures(const TargetInfo &target, const std::string &cpuinfo);

/// The text of /proc/cpuinfo, up to the end of the first processor.
std::string readCpuInfo();

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_CPUFEATURES_H
