//===- BucketKernel.cpp - Encoding of elements in a few bits --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit of work is a group of 8 elements. 8 codes of b bits fill b whole
// bytes, so no two units write the same byte. The codes of a group are loaded
// and stored as one unaligned integer of 8b bits. The codes of a group fit into
// a 64-bit word, in which code i starts at bit b*i. The last group may have
// fewer than 8 elements.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Target/Cpu/Kernels.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

constexpr int64_t kGroup = 8;
/// Minimum groups per call.
constexpr int64_t kGrainGroups = 2048;

class BucketKernel {
public:
  BucketKernel(ModuleOp module, StringRef name, const BucketShape &shape,
               unsigned numArgs, int64_t bits)
      : k(module, name, numArgs, /*numImmediates=*/0), shape(shape), bits(bits),
        type(fullPrecision(shape.elementType)) {}

  /// Calls `body` for every group that one call of the kernel processes, with
  /// the index of the group's first element and the number of its elements.
  KernelLaunch run(function_ref<void(Value first, int64_t count)> body);

  /// Load and store the codes of a group of `count` elements as 64 bits.
  Value loadWord(Value codes, Value first, int64_t count);
  void storeWord(Value word, Value codes, Value first, int64_t count);
  /// Load and store 8 elements in full precision; elements after the first
  /// `count` are not accessed.
  Value loadGroup(Value pointer, Value first, int64_t count);
  void storeGroup(Value group, Value pointer, Value first, int64_t count);

  VectorType groupOf(Type element) { return VectorType::get(kGroup, element); }
  Value spread(Value scalar) {
    return vector::BroadcastOp::create(k.b, groupOf(scalar.getType()), scalar);
  }
  /// Returns a vector of 8 64-bit constants.
  Value constants(function_ref<uint64_t(int64_t)> value);
  /// Selects the level (decoded value) of every lane by a binary tree of
  /// selects over the bits of the lane's code.
  Value select(ArrayRef<Value> bitMasks, ArrayRef<double> levels);

  KernelBuilder k;

private:
  /// packedType() returns an integer type for `count` codes. packedAddress()
  /// returns the address of the codes of the group that contains element
  /// `first`.
  Type packedType(int64_t count) {
    return k.b.getIntegerType(8 * llvm::divideCeil(bits * count, 8));
  }
  Value packedAddress(Value codes, Value first) {
    Value group = arith::ShRUIOp::create(k.b, first, k.i64Constant(3));
    return k.element(codes, k.b.getI8Type(), k.mul(group, k.i64Constant(bits)));
  }
  Value mask(int64_t count);

  const BucketShape &shape;
  int64_t bits;
  Type type; ///< Type of the arithmetic.
};

} // namespace

KernelLaunch
BucketKernel::run(function_ref<void(Value first, int64_t count)> body) {
  int64_t whole = shape.elements / kGroup, rest = shape.elements % kGroup;
  Value wholeEnd = k.i64Constant(whole);
  k.loop(k.begin(), k.min(k.end(), wholeEnd), 1, [&](Value group) {
    body(k.mul(group, k.i64Constant(kGroup)), kGroup);
  });
  if (rest)
    k.ifThen(k.less(wholeEnd, k.end()),
             [&] { body(k.i64Constant(whole * kGroup), rest); });
  k.finish();
  return {whole + (rest ? 1 : 0), kGrainGroups, 0};
}

Value BucketKernel::loadWord(Value codes, Value first, int64_t count) {
  Type packed = packedType(count);
  Value word = LLVM::LoadOp::create(k.b, packed, packedAddress(codes, first),
                                    /*alignment=*/1);
  if (packed == k.i64())
    return word;
  return arith::ExtUIOp::create(k.b, k.i64(), word);
}

void BucketKernel::storeWord(Value word, Value codes, Value first,
                             int64_t count) {
  Type packed = packedType(count);
  if (packed != k.i64())
    word = arith::TruncIOp::create(k.b, packed, word);
  LLVM::StoreOp::create(k.b, word, packedAddress(codes, first),
                        /*alignment=*/1);
}

Value BucketKernel::mask(int64_t count) {
  SmallVector<bool> set(kGroup, false);
  std::fill_n(set.begin(), count, true);
  return arith::ConstantOp::create(
      k.b, DenseElementsAttr::get(groupOf(k.i1()), set));
}

Value BucketKernel::loadGroup(Value pointer, Value first, int64_t count) {
  Value address = k.element(pointer, shape.elementType, first);
  return k.widen(k.loadAs(address, groupOf(shape.elementType),
                          count == kGroup ? Value() : mask(count)));
}

void BucketKernel::storeGroup(Value group, Value pointer, Value first,
                              int64_t count) {
  k.storeRounded(group, k.element(pointer, shape.elementType, first),
                 shape.elementType, count == kGroup ? Value() : mask(count));
}

Value BucketKernel::constants(function_ref<uint64_t(int64_t)> value) {
  SmallVector<uint64_t> values;
  for (int64_t i = 0; i < kGroup; ++i)
    values.push_back(value(i));
  return arith::ConstantOp::create(
      k.b, DenseElementsAttr::get(groupOf(k.i64()), ArrayRef(values)));
}

Value BucketKernel::select(ArrayRef<Value> bitMasks, ArrayRef<double> levels) {
  if (levels.size() == 1)
    return k.constantF(levels.front(), groupOf(type));
  size_t half = levels.size() / 2;
  Value low = select(bitMasks.drop_back(), levels.take_front(half));
  Value high = select(bitMasks.drop_back(), levels.drop_front(half));
  return k.select(bitMasks.back(), high, low);
}

KernelLaunch emitBucketEncode(ModuleOp module, StringRef name,
                              const BucketShape &shape) {
  int64_t bits = llvm::Log2_64(shape.table.size() + 1);
  BucketKernel kernel(module, name, shape, /*numArgs=*/2, bits);
  KernelBuilder &k = kernel.k;
  return kernel.run([&](Value first, int64_t count) {
    Value x = kernel.loadGroup(k.arg(0), first, count);
    VectorType codeType = kernel.groupOf(k.i64());
    Value code = k.constantI(0, codeType);
    for (double border : shape.table) {
      Value isAbove = k.less(k.constantF(border, x.getType()), x);
      code = k.add(code, arith::ExtUIOp::create(k.b, codeType, isAbove));
    }
    Value shifted = arith::ShLIOp::create(
        k.b, code, kernel.constants([&](int64_t i) { return bits * i; }));
    // Clear the lanes that were not loaded because they are after the last
    // element.
    if (count < kGroup)
      shifted = k.bitAnd(shifted, kernel.constants([&](int64_t i) {
        return i < count ? ~uint64_t(0) : 0;
      }));
    Value word =
        vector::ReductionOp::create(k.b, vector::CombiningKind::OR, shifted);
    kernel.storeWord(word, k.arg(1), first, count);
  });
}

KernelLaunch emitBucketDecode(ModuleOp module, StringRef name,
                              const BucketShape &shape) {
  int64_t bits = llvm::Log2_64(shape.table.size());
  BucketKernel kernel(module, name, shape, /*numArgs=*/3, bits);
  KernelBuilder &k = kernel.k;
  return kernel.run([&](Value first, int64_t count) {
    Value word = kernel.spread(kernel.loadWord(k.arg(0), first, count));
    Value none = k.constantI(0, word.getType());
    SmallVector<Value> bitMasks;
    for (int64_t bit = 0; bit < bits; ++bit) {
      Value only = k.bitAnd(word, kernel.constants([&](int64_t i) {
        return uint64_t(1) << (bits * i + bit);
      }));
      bitMasks.push_back(
          arith::CmpIOp::create(k.b, arith::CmpIPredicate::ne, only, none));
    }
    Value level = kernel.select(bitMasks, shape.table);
    Value dy = kernel.loadGroup(k.arg(1), first, count);
    Value zero = k.constantF(0, dy.getType());
    Value dx = k.select(k.equal(level, zero), zero, k.mul(level, dy));
    kernel.storeGroup(dx, k.arg(2), first, count);
  });
}

void addBucketKernel(KernelEmitters &emitters) {
  emitters.add<BucketEncodeOp>(
      {[](ModuleOp module, rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
        return emitBucketEncode(module, kernel.getSymName(),
                                readBucketEncode(SingleOp(kernel)));
      }});
  emitters.add<BucketDecodeOp>(
      {[](ModuleOp module, rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
        return emitBucketDecode(module, kernel.getSymName(),
                                readBucketDecode(SingleOp(kernel)));
      }});
}

} // namespace kiln::cpu
