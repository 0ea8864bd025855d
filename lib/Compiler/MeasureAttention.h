//===- MeasureAttention.h - Measurement of generated attention --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_MEASUREATTENTION_H
#define KILN_LIB_COMPILER_MEASUREATTENTION_H

#include "kiln/Compiler/MeasureMachine.h"

namespace kiln {

/// Measures attention by compiling and running small models with several
/// sequence lengths. `machine` must contain all figures except those of
/// attention.
Result<AttentionCurve> measureAttention(const Machine &machine,
                                        const MeasureOptions &options);

} // namespace kiln

#endif // KILN_LIB_COMPILER_MEASUREATTENTION_H
