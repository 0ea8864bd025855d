//===- FlashQueryGrads.cpp - dq of attention in bf16 ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   own_queries(block):                  // one block of queries of one head
//     c = scale log2(e);
//     dq = 0; D = rowsum(dout * o);      // q, dout, dq, lse, D in registers
//     for (tile : tiles of keys) {       // two stages in shared memory
//       wait(tile); __syncthreads(); copy_async(tile + 1);
//       p = 2^(c q k^T - lse log2(e)); dp = dropout(dout v^T);
//       ds = p (dp - D);
//       dq += round(ds) k;
//     }
//     store(scale dq);
//
// Launch: see FlashBackward.h.
// Shared: two stages (buffers). A stage has one tile of k, one tile of v and,
// with dropout, one mask.
// Bytes: q, dout, o and lse are read once and dq is written once; each block
// reads the k and v that its queries attend to.
//
//===----------------------------------------------------------------------===//

#include "FlashBackward.h"
#include "VectorizedAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

int64_t FlashBackward::keyStageBytes() const {
  return 2 * tiles.tileBytes(sizes.streamedKeys) +
         (drops() ? FlashTiles::maskBytes(sizes.ownQueries()) : 0);
}

FlashBackward::Values FlashBackward::ownSums(const OwnRows &dout,
                                             const HeadRows &o,
                                             Value firstQuery) {
  OwnRows own = tiles.loadOwn(o, firstQuery, sizes.queryGroups);
  Values sums(2 * sizes.queryGroups, k.constantF(0, k.f32()));
  int64_t perGroup = own.words.size() / sizes.queryGroups;
  for (auto [i, x, y] : llvm::enumerate(own.words, dout.words)) {
    Value &sum = sums[int64_t(i) / perGroup * 2 + i % 2];
    auto a = unpackWord(k, shape.elementType, x),
         b = unpackWord(k, shape.elementType, y);
    for (int64_t j : {0, 1})
      sum = k.fma(a[j], b[j], sum);
  }
  for (Value &sum : sums)
    sum = k.neg(
        tiles.acrossRow(sum, [&](Value x, Value y) { return k.add(x, y); }));
  return sums;
}

void FlashBackward::ownQueries(Value unit) {
  int64_t blocks = llvm::divideCeil(shape.length, sizes.ownQueries());
  SmallVector<Value> index = splitIndex(k, unit, {blocks, shape.heads});
  Value block = index[0], head = index[1];
  if (shape.causal)
    block = k.sub(k.i64Constant(blocks - 1), block);
  Value firstQuery = tiles.times(block, sizes.ownQueries());
  QueryHead from = queryHead(head);
  Value kvHead = splitIndex(k, head, {shape.kvHeads, group})[0];
  HeadRows keys = tiles.rows(1, shape.kStride, kvHead);
  HeadRows values = tiles.rows(2, shape.vStride, kvHead);

  int64_t groups = sizes.queryGroups, perTile = sizes.streamedKeys;
  OwnRows q = tiles.loadOwn(from.q, firstQuery, groups);
  OwnRows dout = tiles.loadOwn(from.dout, firstQuery, groups);
  Values minusD = ownSums(dout, from.o, firstQuery);
  Values minusLse;
  for (int64_t row : llvm::seq(2 * groups)) {
    Value query = tiles.existing(tiles.ownRow(firstQuery, row, groups));
    Value lse = k.load(k.element(from.lse, k.f32(), query), k.f32());
    minusLse.push_back(k.mul(lse, minusLog2E));
  }
  auto fetch = [&](Value tile, Value stage) {
    Value first = tiles.times(tile, perTile);
    int64_t bytes = tiles.tileBytes(perTile);
    auto part = [&](int64_t offset) {
      return inStage(stage, keyStageBytes(), offset);
    };
    tiles.fetch(keys, first, perTile, part(0));
    tiles.fetch(values, first, perTile, part(bytes));
    if (drops())
      tiles.makeMask(firstQuery, sizes.ownQueries(), first, part(2 * bytes));
  };
  FlashTiles::TileRange range =
      tiles.seenKeys(firstQuery, sizes.ownQueries(), perTile);
  WarpSums dq = tiles.zeros(groups, shape.headDim);
  dq.values = tiles.stream(
      k.i64Constant(0), range.masked, range.end, dq.values, fetch,
      [&](Value tile, Value stage, bool isMasked, ValueRange carried) {
        return addKeys(q, dout, minusD, minusLse, firstQuery, tile, stage,
                       isMasked, carried);
      },
      /*savesRegisters=*/drops());
  tiles.storeOwn(dq, Values(2 * groups, scale),
                 tiles.rows(dqArg, shape.dqStride, head), firstQuery);
}

FlashBackward::Values
FlashBackward::addKeys(const OwnRows &q, const OwnRows &dout,
                       const Values &minusD, const Values &minusLse,
                       Value firstQuery, Value tile, Value stage, bool isMasked,
                       ValueRange carried) {
  int64_t groups = sizes.queryGroups,
          bytes = tiles.tileBytes(sizes.streamedKeys);
  Value keyTile = inStage(stage, keyStageBytes(), 0);
  Value valueTile = tiles.bytesAt(keyTile, bytes);
  Value firstKey = tiles.times(tile, sizes.streamedKeys);
  Value zero = k.constantF(0, k.f32());
  Value mask = tiles.bytesAt(keyTile, 2 * bytes);
  int64_t perStep = sizes.keysAtOnce;
  auto addStep = [&](Value first, ValueRange carried) {
    Value rowBytes = tiles.times(first, tiles.pitch() * 2);
    Value keys = tiles.bytesAt(keyTile, rowBytes);
    WarpSums p = tiles.scores(q, keys, perStep);
    WarpSums ds =
        tiles.scores(dout, tiles.bytesAt(valueTile, rowBytes), perStep);
    Value stepKey = k.add(firstKey, first);
    for (int64_t row : llvm::seq(2 * groups)) {
      Values seen, dropped(2 * p.tiles);
      if (isMasked)
        seen = tiles.seenBy(tiles.ownRow(firstQuery, row, groups), stepKey,
                            p.tiles);
      if (drops())
        dropped = tiles.droppedBy(mask, row, groups, stepKey, perStep);
      for (int64_t column : llvm::seq(p.tiles))
        for (int64_t i : {0, 1}) {
          Value x = power(p.at(row, column, i), minusLse[row]);
          if (isMasked)
            x = k.select(seen[2 * column + i], x, zero);
          Value &y = ds.at(row, column, i);
          y = k.mul(x, difference(y, minusD[row], dropped[2 * column + i]));
        }
    }
    WarpSums dq = tiles.zeros(groups, shape.headDim);
    dq.values.assign(carried.begin(), carried.end());
    tiles.addMatmul(dq, ds, keys);
    return dq.values;
  };
  Value end = k.i64Constant(sizes.streamedKeys);
  if (isMasked)
    end = tiles.seenByWarp(firstQuery, groups, firstKey, sizes.streamedKeys);
  return k.loop(k.i64Constant(0), end, perStep, carried, addStep);
}

} // namespace kiln::gpu
