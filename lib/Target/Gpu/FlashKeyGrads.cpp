//===- FlashKeyGrads.cpp - dk and dv of attention in bf16 -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   own_keys(block):                     // some keys of one key head
//     c = scale log2(e);
//     dk = dv = 0;                       // k, v, dk, dv in registers
//     for (head : query heads of the key head)
//       for (tile : tiles of queries) {  // two stages in shared memory
//         wait(tile); __syncthreads(); copy_async(tile + 1);
//         D = rowsum(dout * o);          // in shared memory
//         __syncthreads();
//         p = 2^(c k q^T - lse log2(e)); dp = dropout(v dout^T);
//         ds = p (dp - D);
//         dv += round(dropout(p)) dout; dk += round(ds) q;
//       }
//     store(scale dk, dv);
//
// Launch: see FlashBackward.h.
// Shared: two stages (buffers), and the negated row sums -D of the current
// tile. A stage has one tile each of q, dout and o, the lse of the tile's
// queries and, with dropout, one mask per block of 64 own keys.
// Bytes: k and v are read once, dk and dv are written once; each block reads
// the rows of the queries that attend to its keys.
//
//===----------------------------------------------------------------------===//

#include "FlashBackward.h"
#include "VectorizedAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

/// Byte offsets in a stage, the buffer of one tile; q is at 0.
struct QueryStage {
  int64_t dout, o, lse, mask;
  QueryStage(const FlashTiles &tiles, int64_t queries)
      : dout(tiles.tileBytes(queries)), o(2 * dout), lse(3 * dout),
        mask(lse + queries * 4) {}
};

} // namespace

int64_t FlashBackward::queryStageBytes() const {
  int64_t blocks = llvm::divideCeil(sizes.ownKeys(), FlashTiles::kRandomKeys);
  int64_t masks =
      drops() ? blocks * FlashTiles::maskBytes(sizes.streamedQueries) : 0;
  return QueryStage(tiles, sizes.streamedQueries).mask + masks;
}

FlashBackward::Value FlashBackward::minusSums() {
  return tiles.bytesAt(shared, 2 * queryStageBytes());
}

void FlashBackward::ownKeys(Value unit) {
  int64_t groups = sizes.keyGroups, perTile = sizes.streamedQueries;
  SmallVector<Value> index =
      splitIndex(k, unit,
                 {int64_t(llvm::divideCeil(shape.length, sizes.ownKeys())),
                  shape.kvHeads});
  Value firstKey = tiles.times(index[0], sizes.ownKeys()), kvHead = index[1];
  OwnRows keys =
      tiles.loadOwn(tiles.rows(1, shape.kStride, kvHead), firstKey, groups);
  OwnRows values =
      tiles.loadOwn(tiles.rows(2, shape.vStride, kvHead), firstKey, groups);

  // Process tiles of queries, starting at the first tile with a query that
  // attends to a key of this thread block.
  Value end = k.i64Constant(llvm::divideCeil(shape.length, perTile));
  Value first = k.i64Constant(0), whole = first;
  if (shape.causal) {
    first = tiles.times(index[0], sizes.ownKeys() / perTile);
    whole = k.min(tiles.plus(first, sizes.ownKeys() / perTile), end);
  }
  WarpSums zeros = tiles.zeros(groups, shape.headDim);
  Values start = zeros.values;
  llvm::append_range(start, zeros.values);
  auto addHead = [&](Value head, Values carried) {
    QueryHead from = queryHead(head);
    return tiles.stream(
        first, whole, end, carried,
        [&](Value tile, Value stage) {
          fetchQueries(from, firstKey, tile, stage);
        },
        [&](Value tile, Value stage, bool isWhole, ValueRange carried) {
          return addQueries(keys, values, firstKey, tile, stage, !isWhole,
                            carried);
        },
        /*savesRegisters=*/true);
  };
  Values sums;
  if (group == 1)
    sums = addHead(kvHead, start);
  else
    sums = k.loop(k.i64Constant(0), k.i64Constant(group), 1, start,
                  [&](Value member, ValueRange carried) {
                    // Wait until no thread uses the tiles of the previous head.
                    k.barrier();
                    Value head = k.add(tiles.times(kvHead, group), member);
                    return addHead(head, Values(carried));
                  });
  auto store = [&](ArrayRef<Value> sums, Value factor, unsigned arg,
                   int64_t stride) {
    tiles.storeOwn({groups, zeros.tiles, Values(sums)},
                   Values(2 * groups, factor), tiles.rows(arg, stride, kvHead),
                   firstKey);
  };
  size_t half = zeros.values.size();
  store(ArrayRef(sums).drop_front(half), scale, dqArg + 1, shape.dkStride);
  store(ArrayRef(sums).take_front(half),
        k.constantF(tiles.keptFactor(), k.f32()), dqArg + 2, shape.dvStride);
}

void FlashBackward::fetchQueries(const QueryHead &from, Value firstKey,
                                 Value tile, Value stage) {
  int64_t count = sizes.streamedQueries;
  QueryStage places(tiles, count);
  Value first = tiles.times(tile, count);
  auto part = [&](int64_t offset) {
    return inStage(stage, queryStageBytes(), offset);
  };
  tiles.fetch(from.q, first, count, part(0));
  tiles.fetch(from.dout, first, count, part(places.dout));
  tiles.fetch(from.o, first, count, part(places.o));
  k.ifThen(k.less(tiles.thread, k.i64Constant(count)), [&] {
    Value query = k.add(first, tiles.thread);
    Value present;
    if (shape.length % count)
      present = k.select(k.less(query, k.i64Constant(shape.length)),
                         k.constantI(4, k.i32()), k.constantI(0, k.i32()));
    copyAsync(k, k.element(part(places.lse), k.f32(), tiles.thread),
              k.element(from.lse, k.f32(), query), 4, present);
  });
  if (!drops())
    return;
  constexpr int64_t block = FlashTiles::kRandomKeys;
  for (int64_t i = 0; i * block < sizes.ownKeys(); ++i)
    tiles.makeMask(first, count, tiles.plus(firstKey, i * block),
                   part(places.mask + i * FlashTiles::maskBytes(count)));
}

void FlashBackward::sumTile(Value o, Value dout) {
  // Several threads share a query, and each processes `perThread` adjacent
  // elements. An access has 16 bytes if `perThread` is a multiple of 8, else 8
  // bytes.
  int64_t perQuery = FlashTiles::kThreads / sizes.streamedQueries;
  int64_t perThread = shape.headDim / perQuery;
  int64_t width = perThread % 8 == 0 ? 8 : 4;
  Value part = k.bitAnd(tiles.thread, k.i64Constant(perQuery - 1));
  Value query = k.shiftRight(tiles.thread, llvm::Log2_64(perQuery));
  Value place = k.add(tiles.times(query, tiles.pitch() * 2),
                      tiles.times(part, perThread * 2));
  Value x = tiles.bytesAt(o, place), y = tiles.bytesAt(dout, place);
  Value sum = k.constantF(0, k.f32());
  for (int64_t i = 0; i < perThread; i += width) {
    Value xWords = loadWide(k, tiles.bytesAt(x, 2 * i), k.i32(), width / 2);
    Value yWords = loadWide(k, tiles.bytesAt(y, 2 * i), k.i32(), width / 2);
    for (int64_t word : llvm::seq(width / 2)) {
      auto a = unpackWord(k, shape.elementType, wideElement(k, xWords, word));
      auto b = unpackWord(k, shape.elementType, wideElement(k, yWords, word));
      for (int64_t j : {0, 1})
        sum = k.fma(a[j], b[j], sum);
    }
  }
  for (int64_t distance = perQuery / 2; distance >= 1; distance /= 2)
    sum = k.add(sum, k.shuffleXor(sum, distance));
  k.ifThen(k.equal(part, k.i64Constant(0)), [&] {
    k.store(k.neg(sum), k.element(minusSums(), k.f32(), query));
  });
}

FlashBackward::Values FlashBackward::addQueries(const OwnRows &keys,
                                                const OwnRows &values,
                                                Value firstKey, Value tile,
                                                Value stage, bool isMasked,
                                                ValueRange carried) {
  int64_t groups = sizes.keyGroups, count = sizes.streamedQueries;
  QueryStage places(tiles, count);
  Value stageBase = inStage(stage, queryStageBytes(), 0);
  auto part = [&](int64_t offset) { return tiles.bytesAt(stageBase, offset); };
  Value firstQuery = tiles.times(tile, count);
  Value zero = k.constantF(0, k.f32());
  sumTile(part(places.o), part(places.dout));
  k.barrier();

  auto addStep = [&](Value first, ValueRange carried) {
    Value rowBytes = tiles.times(first, tiles.pitch() * 2);
    Value q = tiles.bytesAt(stageBase, rowBytes);
    Value dout = tiles.bytesAt(part(places.dout), rowBytes);
    auto ofLane = [&](Value from, int64_t column) {
      Value mine = k.add(first, tiles.times(tiles.t, 2));
      return loadWide(k,
                      k.element(k.element(from, k.f32(), mine), k.f32(),
                                column * FlashTiles::kColumns),
                      k.f32(), 2);
    };
    WarpSums dv = tiles.zeros(groups, shape.headDim), dk = dv;
    size_t half = dv.values.size();
    dv.values.assign(carried.begin(), carried.begin() + half);
    dk.values.assign(carried.begin() + half, carried.end());

    WarpSums p = tiles.scores(keys, q, sizes.queriesAtOnce);
    SmallVector<Values> sees(2 * groups);
    if (isMasked)
      for (int64_t row : llvm::seq(2 * groups))
        sees[row] = tiles.seesKey(tiles.ownRow(firstKey, row, groups),
                                  k.add(firstQuery, first), p.tiles);
    WarpSums kept = p;
    SmallVector<Values> dropped;
    for (int64_t column : llvm::seq(p.tiles)) {
      Value lses = ofLane(part(places.lse), column);
      dropped.push_back(
          drops() ? tiles.droppedKeys(
                        part(places.mask), groups, count,
                        tiles.plus(first, column * FlashTiles::kColumns))
                  : Values(4 * groups));
      for (int64_t i : {0, 1}) {
        Value minusLse = k.mul(wideElement(k, lses, i), minusLog2E);
        for (int64_t row : llvm::seq(2 * groups)) {
          Value isDropped = dropped[column][2 * row + i];
          Value &x = p.at(row, column, i);
          x = power(x, minusLse);
          if (isMasked)
            x = k.select(sees[row][2 * column + i], x, zero);
          kept.at(row, column, i) =
              isDropped ? k.select(isDropped, zero, x) : x;
        }
      }
    }
    tiles.addMatmul(dv, kept, dout);

    WarpSums ds = tiles.scores(values, dout, sizes.queriesAtOnce);
    for (int64_t column : llvm::seq(p.tiles)) {
      Value minusD = ofLane(minusSums(), column);
      for (int64_t i : {0, 1})
        for (int64_t row : llvm::seq(2 * groups)) {
          Value &y = ds.at(row, column, i);
          y = k.mul(p.at(row, column, i),
                    difference(y, wideElement(k, minusD, i),
                               dropped[column][2 * row + i]));
        }
    }
    tiles.addMatmul(dk, ds, q);
    llvm::append_range(dv.values, dk.values);
    return dv.values;
  };
  Value begin = k.i64Constant(0);
  if (isMasked)
    begin = tiles.blindToWarp(firstKey, groups, firstQuery, count);
  return k.loop(begin, k.i64Constant(count), sizes.queriesAtOnce, carried,
                addStep);
}

} // namespace kiln::gpu
