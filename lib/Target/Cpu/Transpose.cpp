//===- Transpose.cpp - Transposition of 16 vectors in registers -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Transposes a square of 16 x 16 elements by exchanging its off-diagonal
// quarters and then transposing each quarter in the same way. This takes four
// stages of 16 two-vector shuffles. The shuffles are emitted directly instead
// of as vector.transpose, so that they do not depend on an option of the
// lowering of vector.transpose.
//
//===----------------------------------------------------------------------===//

#include "Transpose.h"

using namespace mlir;

namespace kiln::cpu {

SmallVector<Value> emitTranspose(KernelBuilder &k, ArrayRef<Value> rows) {
  SmallVector<Value> square(rows);
  for (int64_t half = kLanes / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> upper(kLanes), lower(kLanes);
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      bool right = lane & half;
      upper[lane] = right ? kLanes + lane - half : lane;
      lower[lane] = right ? kLanes + lane : lane + half;
    }
    for (int64_t i = 0; i < kLanes; ++i) {
      if (i & half)
        continue;
      Value x = square[i], y = square[i + half];
      square[i] = vector::ShuffleOp::create(k.b, x, y, upper);
      square[i + half] = vector::ShuffleOp::create(k.b, x, y, lower);
    }
  }
  return square;
}

} // namespace kiln::cpu
