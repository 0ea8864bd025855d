//===- SketchKernel.cpp - Sums of rows with random signs ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit of work is a row of the result. The row is a sum of rows of x, each
// multiplied by a random sign, and is accumulated in memory. If the result has
// a narrow type such as bf16, the sums stay in scratch memory until they are
// complete.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Target/Common/VectorMath.h"
#include "kiln/Target/Cpu/Kernels.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

/// Minimum elements per call.
constexpr int64_t kGrainElements = 16 * 1024;

/// Returns the bytes of scratch memory for the sums of a row: 0 if the result
/// has the type of the sums, which are then accumulated in the result.
int64_t scratchBytes(const SketchShape &shape) {
  Type sumType = fullPrecision(shape.elementType);
  return shape.elementType == sumType
             ? 0
             : llvm::alignTo(elementBytes(sumType, shape.columns), 64);
}

} // namespace

KernelLaunch emitSketch(ModuleOp module, StringRef name,
                        const SketchShape &shape) {
  KernelBuilder k(module, name, /*numArgs=*/3, /*numImmediates=*/1);
  Type type = shape.elementType, sumType = fullPrecision(type);
  bool inScratch = type != sumType;
  Value zero = k.i64Constant(0), kept = k.i64Constant(shape.kept);
  Value length = k.i64Constant(shape.length);
  auto rngWord = [&](int64_t i) {
    return k.load(k.element(k.arg(1), k.i64(), i), k.i64());
  };
  Value key = emitRandomKey(k, rngWord(0), k.immediate(0));
  Value step = rngWord(1), firstSequence = rngWord(2);
  int64_t rest = shape.columns % kLanes;
  Value whole = k.i64Constant(shape.columns - rest);
  auto forColumns = [&](function_ref<void(Value column, Value mask)> body) {
    k.loop(zero, whole, kLanes, [&](Value column) { body(column, Value()); });
    if (rest)
      body(whole, k.firstLanes(rest));
  };

  k.loop(k.begin(), k.end(), 1, [&](Value row) {
    Value sequence = k.divUnsigned(row, kept);
    Value first = k.remUnsigned(row, kept);
    Value y =
        k.element(k.arg(2), type, k.mul(row, k.i64Constant(shape.columns)));
    Value sums = inScratch ? k.scratch() : y;
    Value x =
        k.element(k.arg(0), type,
                  k.mul(k.mul(sequence, length), k.i64Constant(shape.xStride)));
    auto add = [&](Value t, bool isFirst) {
      Value bits =
          emitRandomWord(k, key, t, k.add(firstSequence, sequence), step);
      Value isMinus = k.less(bits, k.constantI(0, k.i32()));
      Value sign = k.broadcast(
          k.select(isMinus, k.constantF(-1, sumType), k.constantF(1, sumType)));
      Value from = k.element(x, type, k.mul(t, k.i64Constant(shape.xStride)));
      forColumns([&](Value column, Value mask) {
        Value at = k.element(sums, sumType, column);
        Value term =
            k.mul(sign, k.loadWide(k.element(from, type, column), type, mask));
        if (!isFirst)
          term = k.add(k.loadVector(at, sumType, mask), term);
        k.storeVector(term, at, mask);
      });
    };
    add(first, true);
    k.loop(k.add(first, kept), length, shape.kept,
           [&](Value t) { add(t, false); });
    if (inScratch)
      forColumns([&](Value column, Value mask) {
        Value sum =
            k.loadVector(k.element(sums, sumType, column), sumType, mask);
        k.storeRounded(sum, k.element(y, type, column), type, mask);
      });
  });
  k.finish();
  int64_t perUnit = shape.length / shape.kept * shape.columns;
  return {shape.sequences * shape.kept,
          std::max<int64_t>(1, kGrainElements / perUnit), scratchBytes(shape)};
}

void addSketchKernel(KernelEmitters &emitters) {
  emitters.add<SketchRowsOp>(
      {[](ModuleOp module, rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
         return emitSketch(module, kernel.getSymName(),
                           readSketch(SingleOp(kernel)));
       },
       [](rt::KernelOp kernel) {
         return scratchBytes(readSketch(SingleOp(kernel)));
       }});
}

} // namespace kiln::cpu
