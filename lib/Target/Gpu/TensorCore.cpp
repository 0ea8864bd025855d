//===- TensorCore.cpp - Tensor core operations of a warp ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorCore.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

LLVM::LLVMStructType fourOf(Type type) {
  return LLVM::LLVMStructType::getLiteral(type.getContext(),
                                          {type, type, type, type});
}

FourValues split(GpuBuilder &k, Value four) {
  FourValues values;
  for (int64_t i = 0; i < 4; ++i)
    values[i] = LLVM::ExtractValueOp::create(k.b, four, i);
  return values;
}

} // namespace

FourValues multiplyAdd(GpuBuilder &k, Type element, ArrayRef<Value> a,
                       ArrayRef<Value> b, const FourValues &sums) {
  auto type = element.isF16() ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
  // The operands are words of bf16, or vectors of two f16.
  auto operandsOf = [&](ArrayRef<Value> words) {
    SmallVector<Value> operands(words);
    if (element.isF16())
      for (Value &word : operands)
        word = k.bitcast(word, VectorType::get({2}, element));
    return operands;
  };
  return split(k, NVVM::MmaOp::create(
                      k.b, fourOf(k.f32()), operandsOf(a), operandsOf(b), sums,
                      /*shape=*/{16, 8, 16}, std::nullopt, std::nullopt,
                      std::array{type, type},
                      std::array{NVVM::MMALayout::row, NVVM::MMALayout::col}));
}

FourValues loadMatrices(GpuBuilder &k, Value row, bool isTransposed) {
  auto shape = NVVM::LdStMatrixShapeAttr::get(k.b.getContext(), 8, 8);
  return split(k,
               NVVM::LdMatrixOp::create(k.b, fourOf(k.i32()), row, /*num=*/4,
                                        isTransposed ? NVVM::MMALayout::col
                                                     : NVVM::MMALayout::row,
                                        shape, NVVM::LdStMatrixEltType::B16));
}

void copyAsync(GpuBuilder &k, Value to, Value from, int64_t bytes,
               Value present) {
  // A block copies each element only once, so caching in L1 has no benefit. The
  // hardware supports bypassing L1 (CG) only for copies of 16 bytes.
  auto cache = bytes == 16 ? NVVM::LoadCacheModifierKind::CG
                           : NVVM::LoadCacheModifierKind::CA;
  NVVM::CpAsyncOp::create(k.b, to, from, bytes, cache, present);
}

void waitCopies(GpuBuilder &k) {
  NVVM::CpAsyncCommitGroupOp::create(k.b);
  NVVM::CpAsyncWaitGroupOp::create(k.b, 0);
}

Value exp2(GpuBuilder &k, Value x) {
  return LLVM::CallIntrinsicOp::create(
             k.b, k.f32(), k.b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"),
             ValueRange{x})
      .getResult(0);
}

Value larger(GpuBuilder &k, Value x, Value y) {
  return arith::MaxNumFOp::create(k.b, x, y);
}

Value packWord(GpuBuilder &k, Type element, Value low, Value high) {
  auto pair = VectorType::get({2}, k.f32());
  Value both = vector::FromElementsOp::create(k.b, pair, ValueRange{low, high});
  return k.bitcast(arith::TruncFOp::create(k.b, pair.clone(element), both),
                   k.i32());
}

std::array<Value, 2> unpackWord(GpuBuilder &k, Type element, Value word) {
  if (element.isF16()) {
    Value pair = k.bitcast(word, VectorType::get({2}, element));
    return {k.widen(vector::ExtractOp::create(k.b, pair, 0)),
            k.widen(vector::ExtractOp::create(k.b, pair, 1))};
  }
  // The bits of a bf16 are the upper half of the bits of the equal f32.
  Value high = k.bitAnd(word, k.constantI(int32_t(0xffff0000), k.i32()));
  return {k.bitcast(k.shiftLeft(word, 16), k.f32()), k.bitcast(high, k.f32())};
}

} // namespace kiln::gpu
