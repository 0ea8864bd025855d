//===- RopeKernel.cpp - Rotary position embedding -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit is a few neighbouring elements of the first half of one head's row,
// and their partners in the second half. One thread reads and writes both, so
// that y may be x.
//
//===----------------------------------------------------------------------===//

#include "WideAccess.h"

using namespace mlir;

namespace kiln::gpu {

constexpr int64_t kThreads = 256;

FailureOr<KernelLaunch> emitRope(mlir::gpu::GPUModuleOp kernels, StringRef name,
                                 const RopeShape &shape,
                                 Alignments alignments) {
  GpuBuilder k(kernels, name, /*numArgs=*/4, /*numImmediates=*/0, kThreads);
  Type type = shape.elementType;
  int64_t half = shape.headDim / 2;
  int64_t alignment = *llvm::min_element(alignments);
  int64_t width =
      accessWidth(type, alignment, {half, shape.xStride, shape.yStride});
  int64_t parts = half / width;
  int64_t units = shape.rows * shape.heads * parts;

  auto times = [&](Value i, int64_t stride) {
    return k.mul(i, k.i64Constant(stride));
  };
  auto load = [&](unsigned arg, Value offset, int64_t further = 0) {
    Value first = k.element(k.arg(arg), type, offset);
    return loadWide(k, k.element(first, type, further), type, width);
  };
  Value unit = k.add(times(k.block(), kThreads), k.thread());
  k.ifThen(k.less(unit, k.units()), [&] {
    SmallVector<Value> index =
        splitIndex(k, unit, {shape.rows, shape.heads, parts});
    Value row = index[0], j = times(index[2], width);
    Value column = k.add(times(index[1], shape.headDim), j);
    Value position =
        splitIndex(k, row, {shape.rows / shape.period, shape.period})[1];
    Value angle = k.add(times(position, half), j);
    Value cosine = load(1, angle), sine = load(2, angle);
    if (shape.inverse)
      sine = k.neg(sine);
    Value from = k.add(times(row, shape.xStride), column);
    Value x1 = load(0, from), x2 = load(0, from, half);
    Value y1 = k.fma(x1, cosine, k.neg(k.mul(x2, sine)));
    Value y2 = k.fma(x2, cosine, k.mul(x1, sine));
    Value to =
        k.element(k.arg(3), type, k.add(times(row, shape.yStride), column));
    storeWide(k, y1, to);
    storeWide(k, y2, k.element(to, type, half));
  });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{units, kThreads, kThreads, 0};
}

} // namespace kiln::gpu
