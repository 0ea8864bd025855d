//===- OptionCategory.h - Category of the flags of kilnc --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TOOLS_KILNC_OPTIONCATEGORY_H
#define KILN_TOOLS_KILNC_OPTIONCATEGORY_H

#include "llvm/Support/CommandLine.h"

namespace kiln {

/// The category of all flags of kilnc.
extern llvm::cl::OptionCategory optionCategory;

} // namespace kiln

#endif // KILN_TOOLS_KILNC_OPTIONCATEGORY_H
