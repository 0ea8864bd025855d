//===- Passes.h - Passes on schedules for a target --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_PASSES_H
#define KILN_TARGET_COMMON_PASSES_H

#include "mlir/Pass/Pass.h"

namespace kiln {

#define GEN_PASS_DECL
#include "kiln/Target/Common/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kiln/Target/Common/Passes.h.inc"

} // namespace kiln

#endif // KILN_TARGET_COMMON_PASSES_H
