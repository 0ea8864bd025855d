//===- MemberTable.h - Kernels that serve a group of launches ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emitters write kernels for a single launch. If one launch replaces a group of
// launches (the members of the group), the finished kernel reads its arguments
// from a table with the arguments of all members:
//
//   gpu.func @name(%table: !llvm.ptr {llvm.byval = array<members x
//                      array<args x ptr<1>>>}, %imm0: i64, ..., %units: i64)
//
// Block (x, y) of the grid is block x of launch y of the group.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_MEMBERTABLE_H
#define KILN_LIB_TARGET_GPU_MEMBERTABLE_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace kiln::gpu {

/// Replaces the pointer parameters of `kernel` by a table with the arguments of
/// `members` launches.
void addMemberTable(mlir::gpu::GPUFuncOp kernel, int64_t members);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_MEMBERTABLE_H
