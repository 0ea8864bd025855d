//===- SketchKernel.cpp - Random sums of rows -----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit is a few neighbouring elements of the result: one thread adds them up
// in registers, one row of x after the other, each times its sign. Every thread
// computes the signs it needs: a row's sign costs about as much as it takes to
// read the row's elements.
//
//===----------------------------------------------------------------------===//

#include "WideAccess.h"

#include "kiln/Target/Common/VectorMath.h"

using namespace mlir;

namespace kiln::gpu {

constexpr int64_t kThreads = 256;

FailureOr<KernelLaunch> emitSketch(mlir::gpu::GPUModuleOp kernels,
                                   StringRef name, const SketchShape &shape,
                                   Alignments alignments) {
  GpuBuilder k(kernels, name, /*numArgs=*/3, /*numImmediates=*/1, kThreads);
  Type type = shape.elementType, computed = fullPrecision(type);
  int64_t width = accessWidth(type, std::min(alignments[0], alignments[2]),
                              {shape.columns, shape.xStride});
  int64_t rows = shape.sequences * shape.kept, pieces = shape.columns / width;
  auto times = [&](Value i, int64_t stride) {
    return k.mul(i, k.i64Constant(stride));
  };
  auto rngWord = [&](int64_t i) {
    return k.load(k.element(k.arg(1), k.i64(), i), k.i64());
  };

  Value unit = k.add(times(k.block(), kThreads), k.thread());
  k.ifThen(k.less(unit, k.units()), [&] {
    Value key = emitRandomKey(k, rngWord(0), k.immediate(0));
    Value step = rngWord(1), firstSequence = rngWord(2);
    SmallVector<Value> index =
        splitIndex(k, unit, {shape.sequences, shape.kept, pieces});
    Value sequence = index[0], first = index[1];
    Value column = times(index[2], width);
    Value globalSequence = k.add(firstSequence, sequence);
    Value firstRow = times(sequence, shape.length);
    auto term = [&](Value t) {
      Value bits = emitRandomWord(k, key, t, globalSequence, step);
      Value isMinus = k.less(bits, k.constantI(0, k.i32()));
      Value sign = k.select(isMinus, k.constantF(-1, computed),
                            k.constantF(1, computed));
      Value from = k.add(times(k.add(firstRow, t), shape.xStride), column);
      Value x =
          k.widen(loadWide(k, k.element(k.arg(0), type, from), type, width));
      return k.mul(wideOf(k, SmallVector<Value>(width, sign)), x);
    };
    Value sum =
        k.loop(k.add(first, k.i64Constant(shape.kept)),
               k.i64Constant(shape.length), shape.kept, ValueRange{term(first)},
               [&](Value t, ValueRange carried) {
                 return SmallVector<Value>{k.add(carried[0], term(t))};
               })
            .front();
    Value row = k.add(times(sequence, shape.kept), first);
    Value to = k.add(times(row, shape.columns), column);
    storeWide(k, k.roundTo(sum, type), k.element(k.arg(2), type, to));
  });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{rows * pieces, kThreads, kThreads, 0};
}

} // namespace kiln::gpu
