//===- FlashBackward.cpp - Gradients of attention of bf16 -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There are two kinds of units, each a block. One owns 64 keys of a key head,
// streams the queries of the group's heads that see them, and has k, v, dk and
// dv in registers. The other owns a block of queries, streams keys, and has q,
// dout and dq. Both compute anew
//
//   p  = 2^(c q k^T - lse log2(e))   dp = dout v^T   ds = p (dp - D)
//
// with c = scale log2(e) and D = rowsum(dout * o), the former transposed, with
// keys as rows, so that p and ds are where products take them from:
//
//   dv += p^T dout   dk += ds^T q   |   dq += ds k
//
// p and ds are rounded to bf16. dk and dq are multiplied with the scale in the
// end. Every result has one owner, which adds up in order.
//
// With dropout, p is replaced by its dropped values in dv and dp by its own in
// ds; D needs no change, for o holds the dropped values already. The factor of
// what is kept is left to the end in dv.
//
// Units go through the sequences in order, within one from those that see much
// to those that see little.
//
//===----------------------------------------------------------------------===//

#include "Flash.h"
#include "FlashTiles.h"
#include "WideAccess.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

constexpr double kLog2E = 1.4426950408889634;

using Values = FlashTiles::Values;
using HeadRows = FlashTiles::HeadRows;

/// Keys of a unit that owns keys: a group for each warp.
constexpr int64_t kOwnKeys = FlashTiles::kWarps * FlashTiles::kGroupRows;

/// As many as shared memory and registers have room for.
struct Sizes {
  int64_t streamedQueries; ///< of a tile
  int64_t groups;          ///< of 16 own queries, of a warp
  int64_t streamedKeys;    ///< of a tile
  int64_t keysAtOnce;      ///< of a tile, in registers
  int64_t ownQueries() const {
    return groups * FlashTiles::kWarps * FlashTiles::kGroupRows;
  }
};

Sizes chooseSizes(const AttentionShape &shape) {
  bool isShort = shape.length <= FlashTiles::kWarps * FlashTiles::kGroupRows;
  Sizes sizes;
  sizes.streamedQueries = shape.headDim <= 112 ? 32 : 16;
  sizes.groups = !isShort && shape.headDim <= 80 ? 2 : 1;
  sizes.streamedKeys = shape.headDim <= 80 ? 64 : 32;
  sizes.keysAtOnce = sizes.groups == 2 ? 16 : 32;
  return sizes;
}

class FlashBackward {
public:
  FlashBackward(GpuBuilder &k, const AttentionGradShape &shape,
                Alignments alignments)
      : shape(shape), sizes(chooseSizes(shape)), k(k),
        tiles(k, shape, alignments), group(shape.heads / shape.kvHeads),
        dqArg(shape.takesRng ? 7 : 6) {}
  /// Returns the number of units.
  int64_t emit();

private:
  /// Of a query head.
  struct QueryHead {
    HeadRows q, o, dout;
    Value lse; ///< of its first query
  };
  QueryHead queryHead(Value head);
  bool drops() const { return shape.dropout > 0; }
  Value minusSums() { return tiles.bytesAt(shared, 2 * queryStageBytes()); }
  /// p, and ds but for the factor p, of one score.
  Value power(Value score, Value lse) {
    return exp2(k, k.fma(score, factor, lse));
  }
  Value difference(Value dp, Value minusD, Value isDropped);

  void ownKeys(Value unit);
  int64_t queryStageBytes() const;
  void fetchQueries(const QueryHead &from, Value firstKey, Value tile,
                    Value stage);
  /// Puts -D of a tile's queries into shared memory.
  void sumTile(Value o, Value dout);
  Values addQueries(const Values &keys, const Values &values, Value firstKey,
                    Value tile, Value stage, bool isMasked, ValueRange carried);

  void ownQueries(Value unit);
  int64_t keyStageBytes() const;
  /// By row of the lane, -D.
  Values ownSums(const Values &dout, const HeadRows &o, Value firstQuery);

  /// Part of a stage, from a byte on.
  Value inStage(Value stage, int64_t stageBytes, int64_t offset) {
    return tiles.bytesAt(tiles.bytesAt(shared, tiles.times(stage, stageBytes)),
                         offset);
  }

  const AttentionGradShape &shape;
  Sizes sizes;
  GpuBuilder &k;
  FlashTiles tiles;
  int64_t group; ///< query heads of a key head
  unsigned dqArg;
  Value shared;
  Value scale, factor; ///< scale and c
  Value minusLog2E;
};

} // namespace

int64_t FlashBackward::emit() {
  int64_t sums = sizes.streamedQueries * 4;
  int64_t bytes = 2 * std::max(queryStageBytes() + sums, keyStageBytes());
  shared = k.shared(k.b.getI8Type(), bytes);
  scale =
      arith::TruncFOp::create(k.b, k.f32(), k.bitcast(k.immediate(1), k.f64()));
  factor = k.mul(scale, k.constantF(kLog2E, k.f32()));
  minusLog2E = k.constantF(-kLog2E, k.f32());
  if (drops())
    tiles.prepareDropout(k.arg(6), k.immediate(0));
  int64_t keyUnits = llvm::divideCeil(shape.length, kOwnKeys) * shape.kvHeads;
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

Value FlashBackward::difference(Value dp, Value minusD, Value isDropped) {
  if (!isDropped)
    return k.add(dp, minusD);
  Value kept = k.constantF(tiles.keptFactor(), k.f32());
  return k.select(isDropped, minusD, k.fma(dp, kept, minusD));
}

//===----------------------------------------------------------------------===//
// Units that own keys
//===----------------------------------------------------------------------===//

// A stage: q, dout, o, the mask of dropout, lse. Behind both, the sums D.
int64_t FlashBackward::queryStageBytes() const {
  int64_t queries = sizes.streamedQueries;
  return 3 * tiles.tileBytes(queries) +
         (drops() ? FlashTiles::maskBytes(queries) : 0) + queries * 4;
}

void FlashBackward::ownKeys(Value unit) {
  SmallVector<Value> index = splitIndex(
      k, unit,
      {int64_t(llvm::divideCeil(shape.length, kOwnKeys)), shape.kvHeads});
  Value firstKey = tiles.times(index[0], kOwnKeys), kvHead = index[1];
  Values keys =
      tiles.loadOwn(tiles.rows(1, shape.kStride, kvHead), firstKey, 1);
  Values values =
      tiles.loadOwn(tiles.rows(2, shape.vStride, kvHead), firstKey, 1);

  // Of queries: from the first that sees a key.
  int64_t perTile = sizes.streamedQueries;
  int64_t count = llvm::divideCeil(shape.length, perTile);
  Value end = k.i64Constant(count);
  Value first = k.i64Constant(0), whole = first;
  if (shape.causal) {
    first = tiles.times(index[0], kOwnKeys / perTile);
    whole = k.min(tiles.plus(first, kOwnKeys / perTile), end);
  }
  WarpSums zeros = tiles.zeros(1, shape.headDim);
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
        });
  };
  Values sums;
  if (group == 1)
    sums = addHead(kvHead, start);
  else
    sums = k.loop(k.i64Constant(0), k.i64Constant(group), 1, start,
                  [&](Value member, ValueRange carried) {
                    // Nobody works on the tiles of the head before any more.
                    k.barrier();
                    Value head = k.add(tiles.times(kvHead, group), member);
                    return addHead(head, Values(carried));
                  });
  auto store = [&](ArrayRef<Value> sums, Value factor, unsigned arg,
                   int64_t stride) {
    tiles.storeOwn({zeros.groups, zeros.tiles, Values(sums)}, Values(2, factor),
                   tiles.rows(arg, stride, kvHead), firstKey);
  };
  size_t half = zeros.values.size();
  store(ArrayRef(sums).drop_front(half), scale, dqArg + 1, shape.dkStride);
  store(ArrayRef(sums).take_front(half),
        k.constantF(tiles.keptFactor(), k.f32()), dqArg + 2, shape.dvStride);
}

void FlashBackward::fetchQueries(const QueryHead &from, Value firstKey,
                                 Value tile, Value stage) {
  int64_t count = sizes.streamedQueries, bytes = tiles.tileBytes(count);
  Value first = tiles.times(tile, count);
  auto part = [&](int64_t offset) {
    return inStage(stage, queryStageBytes(), offset);
  };
  tiles.fetch(from.q, first, count, part(0));
  tiles.fetch(from.dout, first, count, part(bytes));
  tiles.fetch(from.o, first, count, part(2 * bytes));
  int64_t lse = 3 * bytes;
  if (drops()) {
    tiles.makeMask(first, count, firstKey, part(lse));
    lse += FlashTiles::maskBytes(count);
  }
  k.ifThen(k.less(k.thread(), k.i64Constant(count)), [&] {
    Value query = k.add(first, k.thread());
    Value present;
    if (shape.length % count)
      present = k.select(k.less(query, k.i64Constant(shape.length)),
                         k.constantI(4, k.i32()), k.constantI(0, k.i32()));
    copyAsync(k, k.element(part(lse), k.f32(), k.thread()),
              k.element(from.lse, k.f32(), query), 4, present);
  });
}

void FlashBackward::sumTile(Value o, Value dout) {
  // So many threads for a query, each with every so many-th four elements.
  int64_t perQuery = FlashTiles::kThreads / sizes.streamedQueries;
  constexpr int64_t width = 4;
  Value part = k.bitAnd(k.thread(), k.i64Constant(perQuery - 1));
  Value query = k.shiftRight(k.thread(), llvm::Log2_64(perQuery));
  Value place = k.add(tiles.times(query, tiles.pitch() * 2),
                      tiles.times(part, width * 2));
  Value x = tiles.bytesAt(o, place), y = tiles.bytesAt(dout, place);
  Value sum = k.constantF(0, k.f32());
  for (int64_t i = 0; i < shape.headDim; i += perQuery * width) {
    Value xWords = loadWide(k, tiles.bytesAt(x, 2 * i), k.i32(), width / 2);
    Value yWords = loadWide(k, tiles.bytesAt(y, 2 * i), k.i32(), width / 2);
    for (int64_t word : llvm::seq(width / 2)) {
      auto a = unpackWord(k, wideElement(k, xWords, word));
      auto b = unpackWord(k, wideElement(k, yWords, word));
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

Values FlashBackward::addQueries(const Values &keys, const Values &values,
                                 Value firstKey, Value tile, Value stage,
                                 bool isMasked, ValueRange carried) {
  int64_t count = sizes.streamedQueries, bytes = tiles.tileBytes(count);
  Value q = inStage(stage, queryStageBytes(), 0);
  Value dout = tiles.bytesAt(q, bytes), lse = tiles.bytesAt(q, 3 * bytes);
  Value mask = lse;
  if (drops())
    lse = tiles.bytesAt(lse, FlashTiles::maskBytes(count));
  sumTile(tiles.bytesAt(q, 2 * bytes), dout);
  WarpSums p = tiles.scores(keys, 1, q, 0, count);
  WarpSums ds = tiles.scores(values, 1, dout, 0, count);
  SmallVector<Values> sees;
  if (isMasked)
    for (int64_t row : {0, 1})
      sees.push_back(tiles.seesKey(tiles.ownRow(firstKey, row, 1),
                                   tiles.times(tile, count), p.tiles));
  k.barrier();

  Value zero = k.constantF(0, k.f32());
  auto ofLane = [&](Value from, int64_t column) {
    Value mine = k.element(from, k.f32(), tiles.times(tiles.t, 2));
    return loadWide(k, k.element(mine, k.f32(), column), k.f32(), 2);
  };
  for (int64_t column : llvm::seq(p.tiles)) {
    Value lses = ofLane(lse, column * FlashTiles::kColumns);
    Value minusD = ofLane(minusSums(), column * FlashTiles::kColumns);
    Values dropped(4);
    if (drops())
      dropped = tiles.droppedKeys(mask, column);
    for (int64_t i : {0, 1}) {
      Value minusLse = k.mul(wideElement(k, lses, i), minusLog2E);
      for (int64_t row : {0, 1}) {
        Value isDropped = dropped[2 * row + i];
        Value x = power(p.at(row, column, i), minusLse);
        if (isMasked)
          x = k.select(sees[row][2 * column + i], x, zero);
        Value y = difference(ds.at(row, column, i), wideElement(k, minusD, i),
                             isDropped);
        ds.at(row, column, i) = k.mul(x, y);
        p.at(row, column, i) = isDropped ? k.select(isDropped, zero, x) : x;
      }
    }
  }
  WarpSums dv = tiles.zeros(1, shape.headDim), dk = dv;
  size_t half = dv.values.size();
  dv.values.assign(carried.begin(), carried.begin() + half);
  dk.values.assign(carried.begin() + half, carried.end());
  tiles.addProduct(dv, p, dout, 0);
  tiles.addProduct(dk, ds, q, 0);
  llvm::append_range(dv.values, dk.values);
  return dv.values;
}

//===----------------------------------------------------------------------===//
// Units that own queries
//===----------------------------------------------------------------------===//

// A stage: k, v, the mask of dropout.
int64_t FlashBackward::keyStageBytes() const {
  return 2 * tiles.tileBytes(sizes.streamedKeys) +
         (drops() ? FlashTiles::maskBytes(sizes.ownQueries()) : 0);
}

Values FlashBackward::ownSums(const Values &dout, const HeadRows &o,
                              Value firstQuery) {
  Values words = tiles.loadOwn(o, firstQuery, sizes.groups);
  Values sums(2 * sizes.groups, k.constantF(0, k.f32()));
  int64_t perGroup = words.size() / sizes.groups;
  for (auto [i, x, y] : llvm::enumerate(words, dout)) {
    Value &sum = sums[int64_t(i) / perGroup * 2 + i % 2];
    auto a = unpackWord(k, x), b = unpackWord(k, y);
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

  int64_t groups = sizes.groups, perTile = sizes.streamedKeys;
  Values q = tiles.loadOwn(from.q, firstQuery, groups);
  Values dout = tiles.loadOwn(from.dout, firstQuery, groups);
  Values minusD = ownSums(dout, from.o, firstQuery);
  Values minusLse;
  for (int64_t row : llvm::seq(2 * groups)) {
    Value query = tiles.existing(tiles.ownRow(firstQuery, row, groups));
    Value lse = k.load(k.element(from.lse, k.f32(), query), k.f32());
    minusLse.push_back(k.mul(lse, minusLog2E));
  }

  Value zero = k.constantF(0, k.f32());
  int64_t keyBytes = tiles.tileBytes(perTile);
  auto fetch = [&](Value tile, Value stage) {
    Value first = tiles.times(tile, perTile);
    auto part = [&](int64_t offset) {
      return inStage(stage, keyStageBytes(), offset);
    };
    tiles.fetch(keys, first, perTile, part(0));
    tiles.fetch(values, first, perTile, part(keyBytes));
    if (drops())
      tiles.makeMask(firstQuery, sizes.ownQueries(), first, part(2 * keyBytes));
  };
  auto addKeys = [&](Value tile, Value stage, bool isMasked,
                     ValueRange carried) {
    Value keyTile = inStage(stage, keyStageBytes(), 0);
    Value valueTile = tiles.bytesAt(keyTile, keyBytes);
    Value firstKey = tiles.times(tile, perTile);
    Values words;
    if (drops())
      words = tiles.maskOfQueries(tiles.bytesAt(keyTile, 2 * keyBytes), groups,
                                  firstKey);
    WarpSums dq = tiles.zeros(groups, shape.headDim);
    dq.values.assign(carried.begin(), carried.end());
    int64_t perStep = sizes.keysAtOnce;
    for (int64_t first = 0; first < perTile; first += perStep) {
      WarpSums p = tiles.scores(q, groups, keyTile, first, perStep);
      WarpSums ds = tiles.scores(dout, groups, valueTile, first, perStep);
      for (int64_t row : llvm::seq(2 * groups)) {
        Values seen;
        if (isMasked)
          seen = tiles.seenBy(tiles.ownRow(firstQuery, row, groups),
                              tiles.plus(firstKey, first), p.tiles);
        for (int64_t column : llvm::seq(p.tiles))
          for (int64_t i : {0, 1}) {
            Value isDropped;
            if (drops())
              isDropped = tiles.isDropped(
                  words, row, first / FlashTiles::kColumns + column, i);
            Value x = power(p.at(row, column, i), minusLse[row]);
            if (isMasked)
              x = k.select(seen[2 * column + i], x, zero);
            Value &y = ds.at(row, column, i);
            y = k.mul(x, difference(y, minusD[row], isDropped));
          }
      }
      tiles.addProduct(dq, ds, keyTile, first);
    }
    return dq.values;
  };
  FlashTiles::TileRange range =
      tiles.seenKeys(firstQuery, sizes.ownQueries(), perTile);
  WarpSums dq = tiles.zeros(groups, shape.headDim);
  dq.values = tiles.stream(k.i64Constant(0), range.masked, range.end, dq.values,
                           fetch, addKeys);
  tiles.storeOwn(dq, Values(2 * groups, scale),
                 tiles.rows(dqArg, shape.dqStride, head), firstQuery);
}

bool suitsTensorCores(const AttentionShape &shape) {
  constexpr int64_t most = 128;
  return shape.elementType.isBF16() && shape.headDim <= most &&
         shape.headDim % FlashTiles::kGroupRows == 0;
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
