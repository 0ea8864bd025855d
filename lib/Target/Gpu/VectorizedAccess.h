//===- VectorizedAccess.h - Vectorized memory accesses ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread that accesses adjacent elements accesses up to 16 bytes at once if
// the alignment of all addresses permits it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_VECTORIZEDACCESS_H
#define KILN_LIB_TARGET_GPU_VECTORIZEDACCESS_H

#include "GpuBuilder.h"

namespace kiln::gpu {

/// Returns the number of elements per access: the largest power of two, up to
/// `most` elements and 16 bytes, for which every address is a multiple of the
/// access size. Every address is `alignment` * i + (`strides`[0] * j0 +
/// `strides`[1] * j1 + ...) * element size, with integers i, j0, j1, and so on.
/// `strides` also contains the lengths of segments whose boundaries an access
/// must not cross.
int64_t accessWidth(mlir::Type element, int64_t alignment,
                    llvm::ArrayRef<int64_t> strides, int64_t most = 16);

/// Returns the type of `width` elements as one value: a vector, or the element
/// type if `width` is 1.
mlir::Type wideType(mlir::Type element, int64_t width);

/// Load and store elements without conversion, with the alignment that
/// accessWidth() ensures. A value of more than 16 bytes needs several
/// instructions.
mlir::Value loadWide(GpuBuilder &k, mlir::Value pointer, mlir::Type element,
                     int64_t width);
/// Loads only if `condition` holds; otherwise returns zeros.
mlir::Value loadWideIf(GpuBuilder &k, mlir::Value condition,
                       mlir::Value pointer, mlir::Type element, int64_t width);
void storeWide(GpuBuilder &k, mlir::Value value, mlir::Value pointer);

/// Returns element `i` of a wide value.
mlir::Value wideElement(GpuBuilder &k, mlir::Value value, int64_t i);
/// Returns a wide value of the given elements.
mlir::Value wideOf(GpuBuilder &k, llvm::ArrayRef<mlir::Value> elements);

/// Delinearizes `index` (i64) into the dimensions `sizes`, outermost first.
llvm::SmallVector<mlir::Value> splitIndex(GpuBuilder &k, mlir::Value index,
                                          llvm::ArrayRef<int64_t> sizes);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_VECTORIZEDACCESS_H
