//===- QuantizeFlags.h - Flags of --quantize --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The flags of kilnc that quantize a saved model instead of compiling it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TOOLS_KILNC_QUANTIZEFLAGS_H
#define KILN_TOOLS_KILNC_QUANTIZEFLAGS_H

#include "kiln/Compiler/Compile.h"

namespace kiln {

/// Returns true if --quantize is given.
bool isQuantizing();

/// Fails if --quantize is given together with a flag that then has no effect,
/// or if a flag that needs --quantize is given without it.
Status checkQuantizeFlags();

/// Quantizes the model of `options` to the directory `options.output`. The
/// executable that evaluates the loss is compiled with `options`, too.
Status runQuantization(const CompileOptions &options);

} // namespace kiln

#endif // KILN_TOOLS_KILNC_QUANTIZEFLAGS_H
