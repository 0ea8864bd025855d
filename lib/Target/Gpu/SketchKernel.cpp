//===- SketchKernel.cpp - Random sums of rows -----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit is a few elements of a row of the result: one thread adds them up in
// registers, one row of x after the other, each times its sign. Every thread
// computes the signs it needs, and a sign costs about as much as it takes to
// read 16 bytes: so a thread has up to four accesses in a row, which neighbours
// are between.
//
//===----------------------------------------------------------------------===//

#include "VectorizedAccess.h"

#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace kiln::gpu {

constexpr int64_t kThreads = 256;
constexpr int64_t kMostAccesses = 4, kSectorBytes = 32;

/// Accesses of a thread to a row of `pieces` of `bytes` bytes: as many as leave
/// whole sectors for each.
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
  int64_t units = pieces / accesses; // of a row
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

} // namespace kiln::gpu
