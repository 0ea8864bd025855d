//===- RopeKernel.cpp - Rotary position embedding -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit of work is a row. Let x1 be element j of the first half of a head and
// x2 element j of the second half. Both are rotated by the angle of j at the
// row's position:
//
//   y1 = fma(x1, cos, -(x2 sin))   y2 = fma(x2, cos, x1 sin)
//
// The inverse negates sin. Both elements are loaded before either is stored, so
// the results can be stored in place of x.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Target/Cpu/Kernels.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

/// Minimum elements per call.
constexpr int64_t kGrainElements = 16 * 1024;

} // namespace

KernelLaunch emitRope(ModuleOp module, StringRef name, const RopeShape &shape) {
  KernelBuilder k(module, name, /*numArgs=*/4, /*numImmediates=*/0);
  Type type = shape.elementType, tableType = fullPrecision(type);
  int64_t half = shape.headDim / 2;
  Value zero = k.i64Constant(0);
  auto at = [&](Value pointer, Value offset) {
    return k.element(pointer, type, offset);
  };
  auto loadTable = [&](unsigned arg, Value offset, Value mask) {
    return k.loadVector(k.element(k.arg(arg), tableType, offset), tableType,
                        mask);
  };

  k.loop(k.begin(), k.end(), 1, [&](Value row) {
    Value position = k.remUnsigned(row, k.i64Constant(shape.period));
    Value angle = k.mul(position, k.i64Constant(half));
    Value x = at(k.arg(0), k.mul(row, k.i64Constant(shape.xStride)));
    Value y = at(k.arg(3), k.mul(row, k.i64Constant(shape.yStride)));

    // Rotates up to 16 elements of the first half of each head, together with
    // the corresponding elements of the second half.
    auto turn = [&](Value j, Value mask) {
      Value offset = k.add(angle, j);
      Value cosine = loadTable(1, offset, mask);
      Value sine = loadTable(2, offset, mask);
      if (shape.inverse)
        sine = k.neg(sine);
      k.loop(zero, k.i64Constant(shape.heads), 1, [&](Value head) {
        Value first = k.add(k.mul(head, k.i64Constant(shape.headDim)), j);
        Value second = k.add(first, k.i64Constant(half));
        Value x1 = k.loadWide(at(x, first), type, mask);
        Value x2 = k.loadWide(at(x, second), type, mask);
        Value y1 = k.fma(x1, cosine, k.neg(k.mul(x2, sine)));
        Value y2 = k.fma(x2, cosine, k.mul(x1, sine));
        k.storeRounded(y1, at(y, first), type, mask);
        k.storeRounded(y2, at(y, second), type, mask);
      });
    };
    int64_t whole = half / kLanes * kLanes;
    k.loop(zero, k.i64Constant(whole), kLanes,
           [&](Value j) { turn(j, Value()); });
    if (whole < half)
      turn(k.i64Constant(whole), k.firstLanes(half - whole));
  });
  k.finish();
  int64_t columns = shape.heads * shape.headDim;
  return {shape.rows, std::max<int64_t>(1, kGrainElements / columns), 0};
}

void addRopeKernel(KernelEmitters &emitters) {
  emitters.add<RopeOp>({[](ModuleOp module,
                           rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
    return emitRope(module, kernel.getSymName(), readRope(SingleOp(kernel)));
  }});
}

} // namespace kiln::cpu
