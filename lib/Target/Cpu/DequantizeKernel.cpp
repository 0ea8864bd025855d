//===- DequantizeKernel.cpp - CPU kernel that decodes weights -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NF4: a unit of work is a block of 64 elements, which share a scale:
//
//   for block in [begin, end):
//     scale = table[scale codes[block]] * nested scales[block / 256] + offset
//     for word in the 8 words of codes of the block:   // 8 elements
//       for i in [0, 8):
//         y[i] = round(table[256 + code i of word] * scale)
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "kiln/Dialect/Kiln/IR/Quantization.h"
#include "kiln/Target/Cpu/Kernels.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using kiln::support::Nf4Layout;

namespace kiln::cpu {

/// Minimum number of blocks per call.
static constexpr int64_t kGrainBlocks = 256;
/// Number of elements whose codes are loaded as one word.
static constexpr int64_t kWordElements = 8;

KernelLaunch emitDequantize(ModuleOp module, StringRef name,
                            const Nf4Layout &layout, Type type) {
  KernelBuilder k(module, name, /*numArgs=*/3, /*numImmediates=*/0);
  Type byte = k.b.getI8Type(), word = k.i32(), single = k.b.getF32Type();
  Value codes = k.arg(0), table = k.arg(1), y = k.arg(2);
  auto part = [&](int64_t place) { return k.element(codes, byte, place); };
  Value offset = k.load(part(layout.offsetAt), single);

  auto scaleOf = [&](Value block) -> Value {
    Value code = arith::ExtUIOp::create(
        k.b, k.i64(),
        k.load(k.element(part(layout.scaleCodesAt), byte, block), byte));
    Value group = k.divUnsigned(block, k.i64Constant(Nf4Layout::groupBlocks));
    Value nested =
        k.load(k.element(part(layout.nestedScalesAt), single, group), single);
    Value value = k.load(k.element(table, single, code), single);
    return k.add(k.mul(value, nested), offset);
  };
  // Decodes the `count` elements from `first` on.
  auto decode = [&](Value first, int64_t count, Value scale) {
    Value index = k.divUnsigned(first, k.i64Constant(kWordElements));
    Value packed = k.load(k.element(codes, word, index), word);
    for (int64_t i : llvm::seq(count)) {
      int64_t bit = 8 * (i / 2) + (i % 2 ? 0 : 4);
      Value code =
          k.bitAnd(arith::ShRUIOp::create(k.b, packed, k.constantI(bit, word)),
                   k.constantI(kElementCodes - 1, word));
      Value entry = k.add(arith::ExtUIOp::create(k.b, k.i64(), code),
                          k.i64Constant(kScaleCodes));
      Value value = k.load(k.element(table, single, entry), single);
      k.store(k.roundTo(k.mul(value, scale), type),
              k.element(y, type, k.add(first, k.i64Constant(i))));
    }
  };

  int64_t whole = layout.elements / Nf4Layout::blockElements;
  int64_t rest = layout.elements % Nf4Layout::blockElements;
  Value wholeEnd = k.i64Constant(whole);
  auto firstOf = [&](Value block) {
    return k.mul(block, k.i64Constant(Nf4Layout::blockElements));
  };
  k.loop(k.begin(), k.min(k.end(), wholeEnd), 1, [&](Value block) {
    Value scale = scaleOf(block), first = firstOf(block);
    k.loop(k.i64Constant(0), k.i64Constant(Nf4Layout::blockElements),
           kWordElements,
           [&](Value i) { decode(k.add(first, i), kWordElements, scale); });
  });
  if (rest)
    k.ifThen(k.less(wholeEnd, k.end()), [&] {
      Value scale = scaleOf(wholeEnd), first = firstOf(wholeEnd);
      for (int64_t i = 0; i < rest; i += kWordElements)
        decode(k.add(first, k.i64Constant(i)),
               std::min(kWordElements, rest - i), scale);
    });
  k.finish();
  return KernelLaunch{layout.blocks, kGrainBlocks};
}

void addDequantizeKernel(KernelEmitters &emitters) {
  emitters.add<DequantizeOp>(
      {[](ModuleOp module, rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
        auto op = SingleOp(kernel).as<DequantizeOp>();
        Type type = op.getY().getType().getElementType();
        return std::visit(
            [&](const auto &layout) {
              return emitDequantize(module, kernel.getSymName(), layout, type);
            },
            layoutOf(op.getEncoding()));
      }});
}

} // namespace kiln::cpu
