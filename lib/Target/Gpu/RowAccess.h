//===- RowAccess.h - Accesses to adjacent columns of a row ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads and stores of the adjacent columns that a thread processes: vectorized
// if the alignment permits it, otherwise element by element, with a mask for
// columns past the end. Elements are not converted.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ROWACCESS_H
#define KILN_LIB_TARGET_GPU_ROWACCESS_H

#include "GpuBuilder.h"

namespace kiln::gpu {

/// Selects the columns that exist. If `lanes` is set, column i exists if
/// lanes[i] (i1) is true. If `all` is set, all columns exist if `all` (i1) is
/// true, and otherwise none. If neither is set, all columns exist. `whole` (i1,
/// may be null) accompanies `lanes` and is true if all columns exist, so that
/// one access suffices.
struct Mask {
  mlir::Value all;
  llvm::SmallVector<mlir::Value, kLanes> lanes;
  mlir::Value whole = {};
};

/// Returns true if every address base + (i * `stride` + j * k.width()) elements
/// is aligned for a vector access, for all integers i and j, where base is a
/// multiple of `alignment` bytes.
bool isVectorAligned(const GpuBuilder &k, mlir::Type element, int64_t alignment,
                     int64_t stride);

/// Masked access. Columns that do not exist load as 0 and are not stored.
mlir::Value loadColumns(GpuBuilder &k, mlir::Value pointer, mlir::Type element,
                        bool aligned, const Mask &mask);
void storeColumns(GpuBuilder &k, mlir::Value vector, mlir::Value pointer,
                  bool aligned, const Mask &mask);
/// Returns `x` in columns that exist and `y` in the others.
mlir::Value selectColumns(GpuBuilder &k, const Mask &mask, mlir::Value x,
                          mlir::Value y);
/// Loads a scalar if `condition` holds or is null; otherwise returns 0.
mlir::Value loadScalar(GpuBuilder &k, mlir::Value pointer, mlir::Type type,
                       mlir::Value condition);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ROWACCESS_H
