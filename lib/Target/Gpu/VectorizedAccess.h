//===- VectorizedAccess.h - Several elements at a time ----------------*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread that moves neighbouring elements moves up to 16 bytes at once, where
// all addresses that the kernel forms allow it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_VECTORIZEDACCESS_H
#define KILN_LIB_TARGET_GPU_VECTORIZEDACCESS_H

#include "GpuBuilder.h"

namespace kiln::gpu {

/// Elements that one access may move: a power of two, of `most` elements and of
/// 16 bytes at most, such that addresses which are multiples of `alignment`
/// bytes, plus multiples of the elements `strides`, are multiples of an access.
/// So counts that accesses must not straddle are to be among `strides` too.
int64_t accessWidth(mlir::Type element, int64_t alignment,
                    llvm::ArrayRef<int64_t> strides, int64_t most = 16);

/// What `width` elements are as one value: a vector, or for 1 the element.
mlir::Type wideType(mlir::Type element, int64_t width);

/// Accesses with the alignment that accessWidth ensures, and of elements as
/// they are in memory. Longer than 16 bytes, they are several.
mlir::Value loadWide(GpuBuilder &k, mlir::Value pointer, mlir::Type element,
                     int64_t width);
/// Zeros unless `condition` holds.
mlir::Value loadWideIf(GpuBuilder &k, mlir::Value condition,
                       mlir::Value pointer, mlir::Type element, int64_t width);
void storeWide(GpuBuilder &k, mlir::Value value, mlir::Value pointer);

/// Element `i` of a wide value.
mlir::Value wideElement(GpuBuilder &k, mlir::Value value, int64_t i);
/// A wide value of these elements.
mlir::Value wideOf(GpuBuilder &k, llvm::ArrayRef<mlir::Value> elements);

/// The index in each of the dimensions `sizes`, outermost first, of position
/// `index` (i64) in their product.
llvm::SmallVector<mlir::Value> splitIndex(GpuBuilder &k, mlir::Value index,
                                          llvm::ArrayRef<int64_t> sizes);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_VECTORIZEDACCESS_H
