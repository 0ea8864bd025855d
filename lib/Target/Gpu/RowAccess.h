//===- RowAccess.h - A few columns of a row in memory -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads and stores of the consecutive columns that a thread works on:
// whole vectors where the addresses allow it, else element by element, and only
// those that exist. Elements are as they are in memory.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ROWACCESS_H
#define KILN_LIB_TARGET_GPU_ROWACCESS_H

#include "GpuBuilder.h"

namespace kiln::gpu {

/// Which of the columns exist: those of `lanes` (i1 each), or all if `all` (i1)
/// holds; without either, all do. `whole` (i1, may be null) tells of `lanes`
/// whether they all do, for one access.
struct Mask {
  mlir::Value all;
  llvm::SmallVector<mlir::Value, kLanes> lanes;
  mlir::Value whole = {};
};

/// Whether addresses that are multiples of `alignment` bytes, plus multiples of
/// `stride` and of k.width() elements, are good for a vector.
bool isVectorAligned(const GpuBuilder &k, mlir::Type element, int64_t alignment,
                     int64_t stride);

/// Columns that do not exist are 0.
mlir::Value loadColumns(GpuBuilder &k, mlir::Value pointer, mlir::Type element,
                        bool aligned, const Mask &mask);
void storeColumns(GpuBuilder &k, mlir::Value vector, mlir::Value pointer,
                  bool aligned, const Mask &mask);
/// `x` where columns exist, `y` elsewhere.
mlir::Value selectColumns(GpuBuilder &k, const Mask &mask, mlir::Value x,
                          mlir::Value y);
/// 0 unless `condition` (may be null) holds.
mlir::Value loadScalar(GpuBuilder &k, mlir::Value pointer, mlir::Type type,
                       mlir::Value condition);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ROWACCESS_H
