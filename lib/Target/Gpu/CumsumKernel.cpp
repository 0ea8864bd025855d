//===- CumsumKernel.cpp - GPU kernel for cumulative sums ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each warp computes one row, and a thread block computes 8 rows. The order of
// the additions is fixed. A warp therefore loads 32 elements at a time, and
// every lane adds all 32 in order. Lane i stores the sum of all elements up to
// its own. Loads and stores are coalesced, and each element is read and written
// once.
//
//   sum = 0
//   for base in 0, 32, ...:
//     x = load(row, base + lane), 0 past the end
//     for i in 0 ... 31:
//       sum += shfl(x, i)
//       if (lane == i) mine = sum
//     store(row, base + lane, mine)
//
//===----------------------------------------------------------------------===//

#include "GpuBuilder.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace kiln::gpu {

static constexpr int64_t kRowsPerBlock = 8;
static constexpr int64_t kThreads = kRowsPerBlock * kWarp;

static FailureOr<KernelLaunch> emitCumsum(mlir::gpu::GPUModuleOp kernels,
                                          rt::KernelOp kernel, Alignments) {
  SingleOp single(kernel);
  auto op = single.as<CumsumOp>();
  RankedTensorType tensor = op.getX().getType();
  int64_t rows = tensor.getDimSize(0), columns = tensor.getDimSize(1);
  Type type = tensor.getElementType(), sumType = fullPrecision(type);
  GpuBuilder k(kernels, kernel.getSymName(), /*numArgs=*/2,
               /*numImmediates=*/0, kThreads);
  auto times = [&](Value i, int64_t stride) {
    return k.mul(i, k.i64Constant(stride));
  };
  Value warpSize = k.i64Constant(kWarp), last = k.i64Constant(columns - 1);
  Value lane = k.remUnsigned(k.thread(), warpSize);
  Value row = k.add(times(k.block(), kRowsPerBlock),
                    k.divUnsigned(k.thread(), warpSize));
  Value zero = k.constantF(0, sumType);

  k.ifThen(k.less(row, k.units()), [&] {
    Value x = k.element(k.arg(0), type, times(row, single.strideOf(op.getX())));
    Value y = k.element(k.arg(1), type, times(row, single.strideOfResult(0)));
    k.loop(k.i64Constant(0), k.i64Constant(columns), kWarp, zero,
           [&](Value base, ValueRange carried) {
             Value position = k.add(base, lane);
             Value exists = k.less(position, k.i64Constant(columns));
             // Lanes after the end of the row load the last element, and use 0
             // as their term.
             Value column = k.min(position, last);
             if (op.getReverse())
               column = k.sub(last, column);
             Value element = k.load(k.element(x, type, column), type);
             Value term = k.select(exists, k.widen(element), zero);
             Value sum = carried[0], mine = zero;
             for (int64_t i : llvm::seq(kWarp)) {
               sum = k.add(sum, k.shuffleIdx(term, k.constantI(i, k.i32())));
               mine = k.select(k.equal(lane, k.i64Constant(i)), sum, mine);
             }
             k.ifThen(exists, [&] {
               k.store(k.roundTo(mine, type), k.element(y, type, column));
             });
             return SmallVector<Value>{sum};
           });
  });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{rows, kRowsPerBlock, kThreads};
}

void addCumsumKernel(KernelEmitters &emitters) {
  emitters.add<CumsumOp>(emitCumsum);
}

} // namespace kiln::gpu
