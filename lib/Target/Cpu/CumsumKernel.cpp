//===- CumsumKernel.cpp - CPU kernel for cumulative sums ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit of work is a row. The sums of a row are a chain of dependent
// additions, so the kernel interleaves four rows to hide the latency of the
// additions. y may alias x.
//
//   for row in [begin, end):
//     sum = 0
//     for i in [0, columns):
//       c = reverse ? columns - 1 - i : i
//       sum += x[row, c]
//       y[row, c] = round(sum)
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Target/Cpu/Kernels.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace kiln::cpu {

/// Minimum number of elements per call.
static constexpr int64_t kGrainElements = 16 * 1024;
static constexpr int64_t kRowsAtOnce = 4;

static FailureOr<KernelLaunch> emitCumsum(ModuleOp module,
                                          rt::KernelOp kernel) {
  SingleOp single(kernel);
  auto op = single.as<CumsumOp>();
  RankedTensorType tensor = op.getX().getType();
  int64_t rows = tensor.getDimSize(0), columns = tensor.getDimSize(1);
  Type type = tensor.getElementType(), sumType = fullPrecision(type);
  KernelBuilder k(module, kernel.getSymName(), /*numArgs=*/2,
                  /*numImmediates=*/0);
  auto rowOf = [&](unsigned arg, Value row, int64_t stride) {
    return k.element(k.arg(arg), type, k.mul(row, k.i64Constant(stride)));
  };

  auto addUp = [&](Value first, int64_t count) {
    SmallVector<Value> x, y;
    for (int64_t i : llvm::seq(count)) {
      Value row = k.add(first, k.i64Constant(i));
      x.push_back(rowOf(0, row, single.strideOf(op.getX())));
      y.push_back(rowOf(1, row, single.strideOfResult(0)));
    }
    SmallVector<Value> zeros(count, k.constantF(0, sumType));
    k.loop(k.i64Constant(0), k.i64Constant(columns), 1, zeros,
           [&](Value i, ValueRange sums) {
             Value column =
                 op.getReverse() ? k.sub(k.i64Constant(columns - 1), i) : i;
             SmallVector<Value> next;
             for (auto [sum, from, to] : llvm::zip_equal(sums, x, y)) {
               Value element = k.load(k.element(from, type, column), type);
               next.push_back(k.add(sum, k.widen(element)));
               k.store(k.roundTo(next.back(), type),
                       k.element(to, type, column));
             }
             return next;
           });
  };
  Value rest =
      k.bitAnd(k.sub(k.end(), k.begin()), k.i64Constant(kRowsAtOnce - 1));
  Value whole = k.sub(k.end(), rest);
  k.loop(k.begin(), whole, kRowsAtOnce,
         [&](Value row) { addUp(row, kRowsAtOnce); });
  k.loop(whole, k.end(), 1, [&](Value row) { addUp(row, 1); });
  k.finish();
  return KernelLaunch{rows, std::max<int64_t>(1, kGrainElements / columns)};
}

void addCumsumKernel(KernelEmitters &emitters) {
  emitters.add<CumsumOp>({emitCumsum});
}

} // namespace kiln::cpu
