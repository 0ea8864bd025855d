//===- Transpose.h - Transposition of 16 vectors in registers ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_CPU_TRANSPOSE_H
#define KILN_LIB_TARGET_CPU_TRANSPOSE_H

#include "KernelBuilder.h"

namespace kiln::cpu {

/// Transposes kLanes rows: lane j of result i is lane i of rows[j].
llvm::SmallVector<mlir::Value> emitTranspose(KernelBuilder &k,
                                             llvm::ArrayRef<mlir::Value> rows);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGET_CPU_TRANSPOSE_H
