//===- DequantizeKernel.cpp - GPU kernel that decodes weights -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NF4:
//
//   group = blockIdx.x * 256 + threadIdx.x;            // 8 elements
//   block = group / 8;
//   scale = table[scale codes[block]] * nested scales[block / 256] + offset;
//   word = codes[group];                               // 4 bytes
//   for (i = 0; i < 8; ++i)
//     y[8 * group + i] = round(table[256 + code i of word] * scale);
//
// Launch: 256 threads per block, no shared memory; units = ceil(elements / 8).
// Bytes: every code is read once, every element is written once, and every
// scale is read by the 8 threads that decode its 64 elements. The table stays
// in the L1 cache.
//
//===----------------------------------------------------------------------===//

#include "VectorizedAccess.h"

#include "kiln/Dialect/Kiln/IR/Quantization.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using kiln::support::Nf4Layout;

namespace kiln::gpu {

static constexpr int64_t kThreads = 256;
/// Elements per thread.
static constexpr int64_t kGroup = 8;

FailureOr<KernelLaunch> emitDequantize(mlir::gpu::GPUModuleOp kernels,
                                       StringRef name, const Nf4Layout &layout,
                                       Type type, Alignments alignments) {
  GpuBuilder k(kernels, name, /*numArgs=*/3, /*numImmediates=*/0, kThreads);
  Type byte = k.b.getI8Type(), word = k.i32(), single = k.b.getF32Type();
  Value codes = k.arg(0), table = k.arg(1), y = k.arg(2);
  auto part = [&](int64_t place) { return k.element(codes, byte, place); };
  Value group = k.add(k.mul(k.block(), k.i64Constant(kThreads)), k.thread());

  auto emit = [&](int64_t count) {
    Value block =
        k.divUnsigned(group, k.i64Constant(Nf4Layout::blockElements / kGroup));
    Value scaleCode = arith::ExtUIOp::create(
        k.b, k.i64(),
        k.load(k.element(part(layout.scaleCodesAt), byte, block), byte));
    Value nested = k.load(
        k.element(part(layout.nestedScalesAt), single,
                  k.divUnsigned(block, k.i64Constant(Nf4Layout::groupBlocks))),
        single);
    Value scale = k.add(
        k.mul(k.load(k.element(table, single, scaleCode), single), nested),
        k.load(part(layout.offsetAt), single));
    Value packed = k.load(k.element(codes, word, group), word);
    SmallVector<Value> values;
    for (int64_t i : llvm::seq(count)) {
      int64_t bit = 8 * (i / 2) + (i % 2 ? 0 : 4);
      Value code =
          k.bitAnd(arith::ShRUIOp::create(k.b, packed, k.constantI(bit, word)),
                   k.constantI(kElementCodes - 1, word));
      Value entry = k.add(arith::ExtUIOp::create(k.b, k.i64(), code),
                          k.i64Constant(kScaleCodes));
      values.push_back(
          k.mul(k.load(k.element(table, single, entry), single), scale));
    }
    Value first = k.element(y, type, k.mul(group, k.i64Constant(kGroup)));
    int64_t width = accessWidth(type, alignments[2], {kGroup, count});
    for (int64_t i = 0; i < count; i += width)
      storeWide(k, k.roundTo(wideOf(k, ArrayRef(values).slice(i, width)), type),
                k.element(first, type, i));
  };
  int64_t whole = layout.elements / kGroup, rest = layout.elements % kGroup;
  if (whole > 0)
    k.ifThen(k.less(group, k.i64Constant(whole)), [&] { emit(kGroup); });
  if (rest)
    k.ifThen(k.equal(group, k.i64Constant(whole)), [&] { emit(rest); });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{whole + (rest ? 1 : 0), kThreads, kThreads, 0};
}

static FailureOr<KernelLaunch> emitKernel(mlir::gpu::GPUModuleOp kernels,
                                          rt::KernelOp kernel,
                                          Alignments alignments) {
  auto op = SingleOp(kernel).as<DequantizeOp>();
  return std::visit(
      [&](const auto &layout) {
        return emitDequantize(kernels, kernel.getSymName(), layout,
                              op.getY().getType().getElementType(), alignments);
      },
      layoutOf(op.getEncoding()));
}

void addDequantizeKernel(KernelEmitters &emitters) {
  emitters.add<DequantizeOp>(emitKernel);
}

} // namespace kiln::gpu
