//===- FlashBackward.cpp - Gradients of attention in bf16 -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Code shared by the thread blocks that compute dk and dv for some keys
// (FlashKeyGrads.cpp) and the thread blocks that compute dq for some queries
// (FlashQueryGrads.cpp).
//
//===----------------------------------------------------------------------===//

#include "FlashBackward.h"
#include "Flash.h"
#include "VectorizedAccess.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

/// Selects the sizes. If a warp owns two groups of 16 rows instead of one, the
/// shared memory traffic per matmul is halved. Two groups are used only if the
/// own rows and the scores fit into registers.
FlashBackward::Sizes FlashBackward::chooseSizes(const AttentionShape &shape) {
  bool isShort = shape.length <= FlashTiles::kBlockRows;
  int64_t dim = shape.headDim;
  Sizes sizes;
  sizes.keyGroups = !isShort && dim <= (shape.dropout > 0 ? 48 : 64) ? 2 : 1;
  sizes.streamedQueries = dim <= 112 ? 32 : 16;
  sizes.queriesAtOnce = 16;
  sizes.queryGroups = !isShort && dim <= 80 ? 2 : 1;
  sizes.streamedKeys = dim <= 80 ? 64 : 32;
  sizes.keysAtOnce = 16;
  return sizes;
}

FlashBackward::FlashBackward(GpuBuilder &k, const AttentionGradShape &shape,
                             Alignments alignments)
    : shape(shape), sizes(chooseSizes(shape)), k(k),
      tiles(k, shape, alignments), group(shape.heads / shape.kvHeads),
      dqArg(shape.takesRng ? 7 : 6) {}

int64_t FlashBackward::emit() {
  int64_t sums = sizes.streamedQueries * 4;
  shared = k.shared(k.b.getI8Type(), std::max(2 * queryStageBytes() + sums,
                                              2 * keyStageBytes()));
  scale =
      arith::TruncFOp::create(k.b, k.f32(), k.bitcast(k.immediate(1), k.f64()));
  factor = k.mul(scale, k.constantF(llvm::numbers::log2e, k.f32()));
  minusLog2E = k.constantF(-llvm::numbers::log2e, k.f32());
  if (drops())
    tiles.setRandom(k.arg(6), k.immediate(0));
  int64_t keyUnits =
      llvm::divideCeil(shape.length, sizes.ownKeys()) * shape.kvHeads;
  int64_t queryUnits =
      llvm::divideCeil(shape.length, sizes.ownQueries()) * shape.heads;
  SmallVector<Value> index =
      splitIndex(k, k.block(), {shape.sequences, keyUnits + queryUnits});
  tiles.setHead(index[0], {});
  Value split = k.i64Constant(keyUnits);
  k.ifThen(
      k.less(index[1], split), [&] { ownKeys(index[1]); },
      [&] { ownQueries(k.sub(index[1], split)); });
  return (keyUnits + queryUnits) * shape.sequences;
}

FlashBackward::QueryHead FlashBackward::queryHead(Value head) {
  tiles.setHead(tiles.sequence(), head);
  Value row = k.add(tiles.times(tiles.sequence(), shape.heads), head);
  return {tiles.rows(0, shape.qStride, head),
          tiles.rows(3, shape.oStride, head),
          tiles.rows(5, shape.doutStride, head),
          k.element(k.arg(4), k.f32(), tiles.times(row, shape.length))};
}

Value FlashBackward::power(Value score, Value minusLse) {
  return exp2(k, k.fma(score, factor, minusLse));
}

Value FlashBackward::difference(Value dp, Value minusD, Value isDropped) {
  if (!isDropped)
    return k.add(dp, minusD);
  Value kept = k.constantF(tiles.keptFactor(), k.f32());
  return k.select(isDropped, minusD, k.fma(dp, kept, minusD));
}

Value FlashBackward::inStage(Value stage, int64_t stageBytes, int64_t offset) {
  return tiles.bytesAt(tiles.bytesAt(shared, tiles.times(stage, stageBytes)),
                       offset);
}

FailureOr<KernelLaunch> emitFlashAttentionGrad(mlir::gpu::GPUModuleOp kernels,
                                               StringRef name,
                                               const AttentionGradShape &shape,
                                               Alignments alignments) {
  GpuBuilder k(kernels, name, /*numArgs=*/shape.takesRng ? 10 : 9,
               /*numImmediates=*/2, FlashTiles::kThreads);
  int64_t units = FlashBackward(k, shape, alignments).emit();
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{units, 1, FlashTiles::kThreads, k.sharedBytes()};
}

} // namespace kiln::gpu
