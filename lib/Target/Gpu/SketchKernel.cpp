//===- SketchKernel.cpp - Sums of rows with random signs ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   sketch(x, rng, y):
//     unit = blockIdx.x * 256 + threadIdx.x;
//     (sequence, first, columns) = delinearize(unit);
//     sum = 0;
//     for (t = first; t < length; t += kept)
//       sum += sign(t) * x[sequence * length + t][columns];
//     y[sequence * kept + first][columns] = sum;
//
// Launch: one unit per thread, 256 threads per block, no shared memory. A unit
// computes `accesses` vectors of `width` columns in a row of y, so there are
// sequences * kept * (columns of y) / (width * accesses) units.
// Bytes: x is read once and y is written once.
//
// Every thread computes the signs that it needs, and one sign costs about as
// much as a 16-byte load. A thread therefore uses each sign for up to four
// vectors of a row. The vectors of adjacent threads are adjacent.
//
//===----------------------------------------------------------------------===//

#include "VectorizedAccess.h"

#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace kiln::gpu {

constexpr int64_t kThreads = 256;
constexpr int64_t kMostAccesses = 4, kSectorBytes = 32;

/// Returns the number of vectors of a row that each thread accesses, one after
/// another. A row has `pieces` vectors of `bytes` bytes. The result is the
/// largest power of two n <= kMostAccesses for which pieces / n is an integer
/// and pieces / n * bytes is a multiple of kSectorBytes, or 1 if no such n
/// exists.
static int64_t accessesOf(int64_t pieces, int64_t bytes) {
  int64_t count = kMostAccesses;
  while (count > 1 &&
         (pieces % count != 0 || pieces / count * bytes % kSectorBytes != 0))
    count /= 2;
  return count;
}

FailureOr<KernelLaunch> emitSketch(mlir::gpu::GPUModuleOp kernels,
                                   StringRef name, const SketchShape &shape,
                                   Alignments alignments) {
  GpuBuilder k(kernels, name, /*numArgs=*/3, /*numImmediates=*/1, kThreads);
  Type type = shape.elementType, computed = fullPrecision(type);
  int64_t width = accessWidth(type, std::min(alignments[0], alignments[2]),
                              {shape.columns, shape.xStride});
  int64_t rows = shape.sequences * shape.kept, pieces = shape.columns / width;
  int64_t accesses = accessesOf(pieces, elementBytes(type, width));
  int64_t units = pieces / accesses; // Per row.
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
        splitIndex(k, unit, {shape.sequences, shape.kept, units});
    Value sequence = index[0], first = index[1];
    Value column = times(index[2], width);
    Value globalSequence = k.add(firstSequence, sequence);
    Value firstRow = times(sequence, shape.length);
    auto forAccesses = [&](function_ref<void(int64_t, Value)> body) {
      for (int64_t i : llvm::seq(accesses))
        body(i, k.add(column, k.i64Constant(i * units * width)));
    };
    auto terms = [&](Value t) {
      Value bits = emitRandomWord(k, key, t, globalSequence, step);
      Value isMinus = k.less(bits, k.constantI(0, k.i32()));
      Value sign = k.select(isMinus, k.constantF(-1, computed),
                            k.constantF(1, computed));
      Value row = times(k.add(firstRow, t), shape.xStride);
      SmallVector<Value> terms;
      forAccesses([&](int64_t, Value column) {
        Value from = k.element(k.arg(0), type, k.add(row, column));
        Value x = k.widen(loadWide(k, from, type, width));
        terms.push_back(k.mul(wideOf(k, SmallVector<Value>(width, sign)), x));
      });
      return terms;
    };
    SmallVector<Value> sums = k.loop(
        k.add(first, k.i64Constant(shape.kept)), k.i64Constant(shape.length),
        shape.kept, terms(first), [&](Value t, ValueRange carried) {
          SmallVector<Value> next;
          for (auto [sum, term] : llvm::zip(carried, terms(t)))
            next.push_back(k.add(sum, term));
          return next;
        });
    Value row = k.add(times(sequence, shape.kept), first);
    Value to = times(row, shape.columns);
    forAccesses([&](int64_t i, Value column) {
      storeWide(k, k.roundTo(sums[i], type),
                k.element(k.arg(2), type, k.add(to, column)));
    });
  });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{rows * units, kThreads, kThreads, 0};
}

void addSketchKernel(KernelEmitters &emitters) {
  emitters.add<SketchRowsOp>([](mlir::gpu::GPUModuleOp kernels,
                                rt::KernelOp kernel, Alignments alignments) {
    return emitSketch(kernels, kernel.getSymName(),
                      readSketch(SingleOp(kernel)), alignments);
  });
}

} // namespace kiln::gpu
