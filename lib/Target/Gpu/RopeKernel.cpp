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
// Rows of bf16 would move fewer bytes than the tables, which are f32, if every
// head read these anew: there a unit has the elements of all heads.
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
  Type type = shape.elementType, computed = fullPrecision(type);
  int64_t half = shape.headDim / 2;
  int64_t width =
      accessWidth(computed, std::min(alignments[1], alignments[2]), {half});
  width = accessWidth(type, std::min(alignments[0], alignments[3]),
                      {half, shape.xStride, shape.yStride}, width);
  int64_t parts = half / width;
  int64_t heads = type == computed ? 1 : shape.heads; // of a unit
  int64_t units = shape.rows * (shape.heads / heads) * parts;

  auto times = [&](Value i, int64_t stride) {
    return k.mul(i, k.i64Constant(stride));
  };
  auto load = [&](unsigned arg, Type of, Value offset, int64_t further = 0) {
    Value first = k.element(k.arg(arg), of, offset);
    return k.widen(loadWide(k, k.element(first, of, further), of, width));
  };
  Value unit = k.add(times(k.block(), kThreads), k.thread());
  k.ifThen(k.less(unit, k.units()), [&] {
    SmallVector<Value> index =
        splitIndex(k, unit, {shape.rows, shape.heads / heads, parts});
    Value row = index[0], j = times(index[2], width);
    Value first = heads == 1 ? k.add(times(index[1], shape.headDim), j) : j;
    Value position =
        splitIndex(k, row, {shape.rows / shape.period, shape.period})[1];
    Value angle = k.add(times(position, half), j);
    Value cosine = load(1, computed, angle), sine = load(2, computed, angle);
    if (shape.inverse)
      sine = k.neg(sine);
    auto turn = [&](Value column) {
      Value from = k.add(times(row, shape.xStride), column);
      Value x1 = load(0, type, from), x2 = load(0, type, from, half);
      Value y1 = k.fma(x1, cosine, k.neg(k.mul(x2, sine)));
      Value y2 = k.fma(x2, cosine, k.mul(x1, sine));
      Value to =
          k.element(k.arg(3), type, k.add(times(row, shape.yStride), column));
      storeWide(k, k.roundTo(y1, type), to);
      storeWide(k, k.roundTo(y2, type), k.element(to, type, half));
    };
    if (heads == 1)
      turn(first);
    else
      k.loop(first, k.i64Constant(heads * shape.headDim), shape.headDim, turn);
  });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{units, kThreads, kThreads, 0};
}

} // namespace kiln::gpu
