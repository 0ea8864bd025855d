//===- PackedConversion.cpp - Packed conversions from f32 to bf16 ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedConversion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace kiln::gpu {

static Value roundOne(ImplicitLocOpBuilder &b, Value x) {
  return LLVM::CallIntrinsicOp::create(b, b.getBF16Type(),
                                       b.getStringAttr("llvm.nvvm.f2bf16.rn"),
                                       ValueRange{x})
      .getResult(0);
}

/// Returns the vector {low, high} in bf16.
static Value roundTwo(ImplicitLocOpBuilder &b, Value low, Value high) {
  return LLVM::CallIntrinsicOp::create(
             b, VectorType::get({2}, b.getBF16Type()),
             b.getStringAttr("llvm.nvvm.ff2bf16x2.rn"), ValueRange{high, low})
      .getResult(0);
}

/// Concatenates `vectors`, whose number is a power of two.
static Value joined(ImplicitLocOpBuilder &b, ArrayRef<Value> vectors) {
  if (vectors.size() == 1)
    return vectors.front();
  size_t half = vectors.size() / 2;
  Value low = joined(b, vectors.take_front(half)),
        high = joined(b, vectors.drop_front(half));
  int64_t count = cast<VectorType>(low.getType()).getNumElements();
  return vector::ShuffleOp::create(
      b, low, high, llvm::to_vector(llvm::seq<int64_t>(2 * count)));
}

static Value rounded(ImplicitLocOpBuilder &b, Value x) {
  auto type = dyn_cast<VectorType>(x.getType());
  if (!type)
    return roundOne(b, x);
  if (type.getNumElements() == 1)
    return vector::BroadcastOp::create(
        b, type.clone(b.getBF16Type()),
        roundOne(b, vector::ExtractOp::create(b, x, 0)));
  SmallVector<Value> pairs;
  for (int64_t i = 0; i < type.getNumElements(); i += 2)
    pairs.push_back(roundTwo(b, vector::ExtractOp::create(b, x, i),
                             vector::ExtractOp::create(b, x, i + 1)));
  return joined(b, pairs);
}

void roundInPairs(ModuleOp module) {
  module.walk([](arith::TruncFOp op) {
    Type from = getElementTypeOrSelf(op.getIn()),
         to = getElementTypeOrSelf(op.getType());
    auto vector = dyn_cast<VectorType>(op.getType());
    if (!from.isF32() || !to.isBF16() ||
        (vector && !llvm::isPowerOf2_64(vector.getNumElements())))
      return;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    // A value that was widened from bf16 needs no rounding.
    auto widened = op.getIn().getDefiningOp<arith::ExtFOp>();
    bool isRounded = widened && widened.getIn().getType() == op.getType();
    op.replaceAllUsesWith(isRounded ? widened.getIn() : rounded(b, op.getIn()));
    op.erase();
  });
}

} // namespace kiln::gpu
