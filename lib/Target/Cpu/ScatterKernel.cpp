//===- ScatterKernel.cpp - Adds rows to the rows of a table ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds each row of dy to the row of the table that the token selects. A unit of
// work is a panel of 64 columns of the table. A call owns the columns of its
// units and processes all tokens in order, so the order of the additions to a
// row does not depend on the number of threads. Adjacent panels of a call are
// processed together, since long rows are more efficient than short ones. The
// sums are accumulated in the table, which has full precision.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "kiln/Target/Cpu/Kernels.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

constexpr int64_t kPanelColumns = 64;

} // namespace

KernelLaunch emitScatter(ModuleOp module, StringRef name,
                         const ScatterShape &shape) {
  KernelBuilder k(module, name, /*numArgs=*/3, /*numImmediates=*/1);
  Type type = shape.elementType;
  auto at = [&](Value pointer, Value offset) {
    return k.element(pointer, type, offset);
  };
  Value zero = k.i64Constant(0);
  Value panel = k.i64Constant(kPanelColumns);
  Value first = k.mul(k.begin(), panel);
  Value end = k.min(k.mul(k.end(), panel), k.i64Constant(shape.cols));
  // Only the last panel can end within a vector.
  int64_t rest = shape.cols % kLanes;
  Value whole = k.min(end, k.i64Constant(shape.cols - rest));
  Value ownsRest = k.less(whole, end);
  auto forColumns = [&](function_ref<void(Value column, Value mask)> body) {
    k.loop(first, whole, kLanes, [&](Value column) { body(column, Value()); });
    if (rest)
      k.ifThen(ownsRest, [&] { body(whole, k.firstLanes(rest)); });
  };
  auto tableRow = [&](Value row) {
    return at(k.arg(2), k.mul(row, k.i64Constant(shape.cols)));
  };

  k.ifThen(k.equal(k.immediate(0), zero), [&] {
    Value zeros = k.constantF(0, k.vectorOf(type));
    k.loop(zero, k.i64Constant(shape.vocabulary), 1, [&](Value row) {
      Value to = tableRow(row);
      forColumns([&](Value column, Value mask) {
        k.storeVector(zeros, at(to, column), mask);
      });
    });
  });
  k.loop(zero, k.i64Constant(shape.tokens), 1, [&](Value i) {
    Value token = k.load(k.element(k.arg(0), k.i32(), i), k.i32());
    auto addRow = [&] {
      Value to = tableRow(arith::ExtUIOp::create(k.b, k.i64(), token));
      Value from = k.element(k.arg(1), shape.dyType,
                             k.mul(i, k.i64Constant(shape.dyStride)));
      forColumns([&](Value column, Value mask) {
        Value sum = k.add(k.loadVector(at(to, column), type, mask),
                          k.loadWide(k.element(from, shape.dyType, column),
                                     shape.dyType, mask));
        k.storeVector(sum, at(to, column), mask);
      });
    };
    if (!shape.paddingIndex)
      return addRow();
    Value padding = k.constantI(*shape.paddingIndex, k.i32());
    Value isPadding = k.equal(token, padding);
    k.ifThen(k.bitXor(isPadding, k.constantI(1, k.i1())), addRow);
  });
  k.finish();
  return {static_cast<int64_t>(llvm::divideCeil(shape.cols, kPanelColumns)), 1,
          0};
}

void addScatterKernel(KernelEmitters &emitters) {
  emitters.add<EmbeddingGradOp>(
      {[](ModuleOp module, rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
        return emitScatter(module, kernel.getSymName(),
                           readScatter(SingleOp(kernel)));
      }});
}

} // namespace kiln::cpu
