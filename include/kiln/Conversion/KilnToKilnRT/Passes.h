//===- Passes.h - Scheduling passes -----------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_CONVERSION_KILNTOKILNRT_PASSES_H
#define KILN_CONVERSION_KILNTOKILNRT_PASSES_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "mlir/Pass/Pass.h"

namespace kiln {

#define GEN_PASS_DECL
#include "kiln/Conversion/KilnToKilnRT/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "kiln/Conversion/KilnToKilnRT/Passes.h.inc"

} // namespace kiln

#endif // KILN_CONVERSION_KILNTOKILNRT_PASSES_H
