//===- BucketKernel.cpp - Codes of a few bits per element -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit, and a thread, is a group of 8 elements: 8 codes of b bits are b whole
// bytes, so that no two threads write the same byte, and one word of 64 bits in
// which element i has its code at bit b*i. The last group may be smaller.
//
// Borders increase, so a code is found by a binary search: from its highest bit
// on, the border in the middle of what is left, which a tree of selections by
// the bits before picks.
//
//===----------------------------------------------------------------------===//

#include "WideAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

constexpr int64_t kGroup = 8;
constexpr int64_t kThreads = 256;

class BucketKernel {
public:
  BucketKernel(mlir::gpu::GPUModuleOp kernels, StringRef name,
               const BucketShape &shape, unsigned numArgs, int64_t bits,
               Alignments alignments)
      : k(kernels, name, numArgs, /*numImmediates=*/0, kThreads), shape(shape),
        bits(bits), alignments(alignments) {}

  /// Calls `body` for the group of the thread: its first element and how many
  /// there are.
  FailureOr<KernelLaunch>
  run(function_ref<void(Value first, int64_t count)> body);

  /// The codes of `count` elements, as 64 bits.
  Value loadWord(unsigned arg, Value first, int64_t count);
  void storeWord(Value word, unsigned arg, Value first, int64_t count);
  /// Elements in the type of the arithmetic.
  SmallVector<Value> loadGroup(unsigned arg, Value first, int64_t count);
  void storeGroup(ArrayRef<Value> group, unsigned arg, Value first);

  /// The entry of `table` whose index has these bits (i1), lowest first.
  Value select(ArrayRef<Value> indexBits, ArrayRef<double> table);

  Type computedType() const { return fullPrecision(shape.elementType); }

  GpuBuilder k;

private:
  /// Calls `body` for each access to the codes of `count` elements: its
  /// address, its type, and the bit of the word at which it starts.
  void forCodes(
      unsigned arg, Value first, int64_t count,
      function_ref<void(Value address, IntegerType type, int64_t bit)> body);
  int64_t groupWidth(unsigned arg, int64_t count) {
    return accessWidth(shape.elementType, alignments[arg], {kGroup, count});
  }

  const BucketShape &shape;
  int64_t bits;
  Alignments alignments;
};

} // namespace

FailureOr<KernelLaunch>
BucketKernel::run(function_ref<void(Value first, int64_t count)> body) {
  int64_t whole = shape.elements / kGroup, rest = shape.elements % kGroup;
  Value group = k.add(k.mul(k.block(), k.i64Constant(kThreads)), k.thread());
  k.ifThen(k.less(group, k.i64Constant(whole)),
           [&] { body(k.mul(group, k.i64Constant(kGroup)), kGroup); });
  if (rest)
    k.ifThen(k.equal(group, k.i64Constant(whole)),
             [&] { body(k.i64Constant(whole * kGroup), rest); });
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{whole + (rest ? 1 : 0), kThreads, kThreads, 0};
}

void BucketKernel::forCodes(
    unsigned arg, Value first, int64_t count,
    function_ref<void(Value address, IntegerType type, int64_t bit)> body) {
  Type byte = k.b.getI8Type();
  int64_t bytes = llvm::divideCeil(bits * count, 8);
  int64_t width = accessWidth(byte, alignments[arg], {bits, bytes});
  Value group = k.shiftRight(first, llvm::Log2_64(kGroup));
  Value codes = k.element(k.arg(arg), byte, k.mul(group, k.i64Constant(bits)));
  for (int64_t i = 0; i < bytes; i += width)
    body(k.element(codes, byte, i), k.b.getIntegerType(8 * width), 8 * i);
}

Value BucketKernel::loadWord(unsigned arg, Value first, int64_t count) {
  Value word = k.i64Constant(0);
  forCodes(arg, first, count,
           [&](Value address, IntegerType type, int64_t bit) {
             Value part = k.load(address, type);
             if (type != k.i64())
               part = arith::ExtUIOp::create(k.b, k.i64(), part);
             word = k.bitOr(word, k.shiftLeft(part, bit));
           });
  return word;
}

void BucketKernel::storeWord(Value word, unsigned arg, Value first,
                             int64_t count) {
  forCodes(arg, first, count,
           [&](Value address, IntegerType type, int64_t bit) {
             Value part = k.shiftRight(word, bit);
             if (type != k.i64())
               part = arith::TruncIOp::create(k.b, type, part);
             k.store(part, address);
           });
}

SmallVector<Value> BucketKernel::loadGroup(unsigned arg, Value first,
                                           int64_t count) {
  Type type = shape.elementType;
  int64_t width = groupWidth(arg, count);
  Value address = k.element(k.arg(arg), type, first);
  SmallVector<Value> group;
  for (int64_t i = 0; i < count; i += width) {
    Value x = k.widen(loadWide(k, k.element(address, type, i), type, width));
    for (int64_t j : llvm::seq(width))
      group.push_back(wideElement(k, x, j));
  }
  return group;
}

void BucketKernel::storeGroup(ArrayRef<Value> group, unsigned arg,
                              Value first) {
  Type type = shape.elementType;
  int64_t count = group.size(), width = groupWidth(arg, count);
  Value address = k.element(k.arg(arg), type, first);
  for (int64_t i = 0; i < count; i += width)
    storeWide(k, k.roundTo(wideOf(k, group.slice(i, width)), type),
              k.element(address, type, i));
}

Value BucketKernel::select(ArrayRef<Value> indexBits, ArrayRef<double> table) {
  if (table.size() == 1)
    return k.constantF(table.front(), computedType());
  size_t half = table.size() / 2;
  Value low = select(indexBits.drop_back(), table.take_front(half));
  Value high = select(indexBits.drop_back(), table.drop_front(half));
  return k.select(indexBits.back(), high, low);
}

FailureOr<KernelLaunch> emitBucketEncode(mlir::gpu::GPUModuleOp kernels,
                                         StringRef name,
                                         const BucketEncodeShape &shape,
                                         Alignments alignments) {
  int64_t bits = llvm::Log2_64(shape.table.size() + 1);
  BucketKernel kernel(kernels, name, shape, /*numArgs=*/2, bits, alignments);
  GpuBuilder &k = kernel.k;
  return kernel.run([&](Value first, int64_t count) {
    Value word = k.i64Constant(0);
    for (auto [i, x] : llvm::enumerate(kernel.loadGroup(0, first, count))) {
      SmallVector<Value> found; // bits, lowest first
      for (int64_t bit = bits - 1; bit >= 0; --bit) {
        // The borders in the middle of what the bits above may leave.
        SmallVector<double> middles;
        for (int64_t high = 0; high < int64_t(1) << (bits - 1 - bit); ++high)
          middles.push_back(shape.table[(((high << 1) | 1) << bit) - 1]);
        found.insert(found.begin(), k.less(kernel.select(found, middles), x));
      }
      for (auto [bit, isSet] : llvm::enumerate(found)) {
        Value one = arith::ExtUIOp::create(k.b, k.i64(), isSet);
        word = k.bitOr(word, k.shiftLeft(one, bits * i + bit));
      }
    }
    kernel.storeWord(word, 1, first, count);
  });
}

FailureOr<KernelLaunch> emitBucketDecode(mlir::gpu::GPUModuleOp kernels,
                                         StringRef name,
                                         const BucketDecodeShape &shape,
                                         Alignments alignments) {
  int64_t bits = llvm::Log2_64(shape.table.size());
  BucketKernel kernel(kernels, name, shape, /*numArgs=*/3, bits, alignments);
  GpuBuilder &k = kernel.k;
  return kernel.run([&](Value first, int64_t count) {
    Value word = kernel.loadWord(0, first, count);
    Value none = k.i64Constant(0), zero = k.constantF(0, kernel.computedType());
    SmallVector<Value> group = kernel.loadGroup(1, first, count);
    for (auto [i, x] : llvm::enumerate(group)) {
      SmallVector<Value> indexBits;
      for (int64_t bit : llvm::seq(bits)) {
        uint64_t mask = uint64_t(1) << (bits * i + bit);
        Value only = k.bitAnd(word, k.i64Constant(int64_t(mask)));
        indexBits.push_back(
            arith::CmpIOp::create(k.b, arith::CmpIPredicate::ne, only, none));
      }
      Value level = kernel.select(indexBits, shape.table);
      x = k.select(k.equal(level, zero), zero, k.mul(level, x));
    }
    kernel.storeGroup(group, 2, first);
  });
}

} // namespace kiln::gpu
