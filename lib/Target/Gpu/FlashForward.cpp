//===- FlashForward.cpp - Attention in bf16 on tensor cores ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   attention(q, k, v, o, lse):          // one block of queries of one head
//     m = -1e30; l = 0; o = 0;           // in registers, f32
//     for (tile : tiles of keys) {       // two stages in shared memory
//       wait(tile); __syncthreads(); copy_async(tile + 1);
//       s = q k^T;
//       m' = max(m, max(s)); alpha = 2^(c m - c m'); p = 2^(c s - c m');
//       l = l alpha + sum(p); m = m';    // l per lane until the end
//       o = o alpha + round(dropout(p)) v;
//     }
//     o = o / l; lse = scale m + log(l); // c = scale log2(e)
//
// Launch: sequences * heads * ceil(length / queries) blocks of 128 threads,
// with 64 or 128 queries per block.
// Shared: two stages (buffers). A stage has one tile of k, one tile of v and,
// with dropout, one mask.
// Bytes: q is read once, o and lse are written once, and each block reads the k
// and v that its queries attend to.
//
// If c = scale log2(e) is negative, the kernel uses -q and |c| instead of q and
// c, so that the largest score gives the largest power.
//
// A tile is masked only if it contains a key to which some query of the block
// does not attend. Masked tiles come last and have their own loop. Tile 0
// contains a key that every query attends to, so after tile 0, m is the maximum
// of at least one score that is not masked.
//
// Thread blocks are ordered by sequence, so that blocks that share keys run
// concurrently. Within a sequence, late queries come first, since they attend
// to more keys.
//
//===----------------------------------------------------------------------===//

#include "Flash.h"
#include "FlashTiles.h"
#include "VectorizedAccess.h"

#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

/// Initial maximum: less than all scores, and finite so that differences are
/// not NaN.
constexpr double kNoMaximum = -1e30;
constexpr double kLeastFactor = 1e-20;
/// Keys per step in masked tiles.
constexpr int64_t kMaskedKeys = 32;

using Values = FlashTiles::Values;
using HeadRows = FlashTiles::HeadRows;

/// Numbers of queries that a thread block owns and of keys that it streams.
struct Sizes {
  int64_t groups;     ///< Groups of 16 queries per warp.
  int64_t keys;       ///< Keys per tile.
  int64_t keysAtOnce; ///< Keys whose scores are in registers.
  int64_t queries() const { return groups * FlashTiles::kBlockRows; }
};

/// Selects the sizes. If a warp has two groups of 16 queries instead of one,
/// the shared memory traffic per matmul is halved. Two groups are used only if
/// their sums and scores fit into registers.
Sizes chooseSizes(const AttentionShape &shape) {
  bool isShort = shape.length <= FlashTiles::kBlockRows;
  int64_t dim = shape.headDim;
  Sizes sizes;
  sizes.groups = !isShort && dim <= 96 ? 2 : 1;
  sizes.keys = dim <= 80 ? 64 : 32;
  sizes.keysAtOnce = dim <= (shape.dropout > 0 ? 48 : 64) ? 64 : 32;
  return sizes;
}

class FlashForward {
public:
  FlashForward(GpuBuilder &k, const AttentionShape &shape,
               Alignments alignments)
      : shape(shape), sizes(chooseSizes(shape)), k(k),
        tiles(k, shape, alignments), oArg(shape.takesRng ? 4 : 3) {}
  /// Returns the number of units of work: thread blocks.
  int64_t emit();

private:
  /// The maxima m, the sums l and the output o of the lane's queries, after
  /// some tiles of keys. `maxima` and `sums` are indexed by row of the lane.
  struct State {
    Values maxima, sums;
    WarpSums output;
    Values all() const;
  };
  State split(ValueRange values) const;
  /// Adds `count` keys of a tile to the state, starting at key `first` of the
  /// tile.
  State addKeys(const State &before, Value tile, Value first, int64_t count,
                Value stage, bool isMasked);
  void fetch(const HeadRows &keys, const HeadRows &values, Value tile,
             Value stage);
  void finish(const State &state);

  int64_t ownRows() const { return 2 * sizes.groups; }
  int64_t stageBytes() const {
    return 2 * tiles.tileBytes(sizes.keys) +
           (shape.dropout > 0 ? FlashTiles::maskBytes(sizes.queries()) : 0);
  }
  Value keyTile(Value stage) {
    return tiles.bytesAt(shared, tiles.times(stage, stageBytes()));
  }
  Value valueTile(Value stage) {
    return tiles.bytesAt(keyTile(stage), tiles.tileBytes(sizes.keys));
  }
  Value mask(Value stage) {
    return tiles.bytesAt(keyTile(stage), 2 * tiles.tileBytes(sizes.keys));
  }

  const AttentionShape &shape;
  Sizes sizes;
  GpuBuilder &k;
  FlashTiles tiles;
  unsigned oArg;
  Value shared;
  Value scale, factor; ///< |scale|; max(|scale| log2(e), kLeastFactor).
  Value firstQuery;
  OwnRows q;
};

} // namespace

Values FlashForward::State::all() const {
  Values values = maxima;
  llvm::append_range(values, sums);
  llvm::append_range(values, output.values);
  return values;
}

FlashForward::State FlashForward::split(ValueRange values) const {
  int64_t rows = ownRows();
  State state;
  llvm::append_range(state.maxima, values.take_front(rows));
  llvm::append_range(state.sums, values.slice(rows, rows));
  state.output = {sizes.groups, shape.headDim / FlashTiles::kColumns,
                  Values(values.drop_front(2 * rows))};
  return state;
}

int64_t FlashForward::emit() {
  shared = k.shared(k.b.getI8Type(), 2 * stageBytes());
  Value given =
      arith::TruncFOp::create(k.b, k.f32(), k.bitcast(k.immediate(1), k.f64()));
  scale = k.abs(given);
  // Masked scores are multiplied by `factor` too, and the results must remain
  // far below those of valid scores. `factor` therefore has a lower bound,
  // which is too small to affect the probabilities of valid scores.
  factor = larger(k, k.mul(scale, k.constantF(llvm::numbers::log2e, k.f32())),
                  k.constantF(kLeastFactor, k.f32()));
  Value signs = k.select(k.less(given, k.constantF(0, k.f32())),
                         k.constantI(int32_t(0x80008000), k.i32()),
                         k.constantI(0, k.i32()));
  if (shape.dropout > 0)
    tiles.setRandom(k.arg(3), k.immediate(0));

  int64_t blocks = llvm::divideCeil(shape.length, sizes.queries());
  SmallVector<Value> index =
      splitIndex(k, k.block(), {shape.sequences, blocks, shape.heads});
  Value block = index[1], head = index[2];
  if (shape.causal)
    block = k.sub(k.i64Constant(blocks - 1), block);
  firstQuery = tiles.times(block, sizes.queries());
  tiles.setHead(index[0], head);
  Value kvHead =
      splitIndex(k, head, {shape.kvHeads, shape.heads / shape.kvHeads})[0];
  HeadRows keys = tiles.rows(1, shape.kStride, kvHead);
  HeadRows values = tiles.rows(2, shape.vStride, kvHead);

  q = tiles.loadOwn(tiles.rows(0, shape.qStride, head), firstQuery,
                    sizes.groups);
  for (Value &word : q.words)
    word = k.bitXor(word, signs);
  State start = {Values(ownRows(), k.constantF(kNoMaximum, k.f32())),
                 Values(ownRows(), k.constantF(0, k.f32())),
                 tiles.zeros(sizes.groups, shape.headDim)};
  FlashTiles::TileRange range =
      tiles.seenKeys(firstQuery, sizes.queries(), sizes.keys);
  Values last = tiles.stream(
      k.i64Constant(0), range.masked, range.end, start.all(),
      [&](Value tile, Value stage) { fetch(keys, values, tile, stage); },
      [&](Value tile, Value stage, bool isMasked, ValueRange carried) {
        int64_t perStep = sizes.keysAtOnce;
        Value end = k.i64Constant(sizes.keys);
        if (isMasked) {
          // Skip the steps whose keys no query of the warp attends to.
          perStep = std::min(perStep, kMaskedKeys);
          end = tiles.seenByWarp(firstQuery, sizes.groups,
                                 tiles.times(tile, sizes.keys), sizes.keys);
        }
        return k.loop(k.i64Constant(0), end, perStep, carried,
                      [&](Value first, ValueRange carried) {
                        return addKeys(split(carried), tile, first, perStep,
                                       stage, isMasked)
                            .all();
                      });
      },
      /*savesRegisters=*/shape.dropout > 0);
  finish(split(last));
  return blocks * shape.sequences * shape.heads;
}

void FlashForward::fetch(const HeadRows &keys, const HeadRows &values,
                         Value tile, Value stage) {
  Value first = tiles.times(tile, sizes.keys);
  tiles.fetch(keys, first, sizes.keys, keyTile(stage));
  tiles.fetch(values, first, sizes.keys, valueTile(stage));
  if (shape.dropout > 0)
    tiles.makeMask(firstQuery, sizes.queries(), first, mask(stage));
}

FlashForward::State FlashForward::addKeys(const State &before, Value tile,
                                          Value first, int64_t count,
                                          Value stage, bool isMasked) {
  auto max = [&](Value x, Value y) { return larger(k, x, y); };
  Value firstKey = k.add(tiles.times(tile, sizes.keys), first);
  Value rowBytes = tiles.times(first, tiles.pitch() * 2);
  WarpSums s = tiles.scores(q, tiles.bytesAt(keyTile(stage), rowBytes), count);
  Value hidden = k.constantF(kNoMaximum, k.f32());
  Value zero = k.constantF(0, k.f32());
  auto forEach = [&](function_ref<void(int64_t, int64_t)> body) {
    for (int64_t tile : llvm::seq(s.tiles))
      for (int64_t i : {0, 1})
        body(tile, i);
  };

  State after;
  Values alphas;
  for (int64_t row : llvm::seq(ownRows())) {
    Values seen;
    if (isMasked)
      seen = tiles.seenBy(tiles.ownRow(firstQuery, row, sizes.groups), firstKey,
                          s.tiles);
    Value maximum;
    forEach([&](int64_t tile, int64_t i) {
      Value &x = s.at(row, tile, i);
      if (isMasked)
        x = k.select(seen[2 * tile + i], x, hidden);
      maximum = maximum ? max(maximum, x) : x;
    });
    maximum = max(before.maxima[row], tiles.acrossRow(maximum, max));
    Values dropped;
    if (shape.dropout > 0)
      dropped =
          tiles.droppedBy(mask(stage), row, sizes.groups, firstKey, count);
    Value offset = k.neg(k.mul(maximum, factor));
    Value alpha = exp2(k, k.fma(before.maxima[row], factor, offset));
    Value sum = k.mul(before.sums[row], alpha);
    forEach([&](int64_t tile, int64_t i) {
      Value &x = s.at(row, tile, i);
      x = exp2(k, k.fma(x, factor, offset));
      sum = k.add(sum, x);
      if (shape.dropout > 0)
        x = k.select(dropped[2 * tile + i], zero, x);
    });
    after.maxima.push_back(maximum);
    after.sums.push_back(sum);
    alphas.push_back(alpha);
  }
  after.output = before.output;
  for (int64_t row : llvm::seq(ownRows()))
    for (int64_t tile : llvm::seq(after.output.tiles))
      for (int64_t i : {0, 1}) {
        Value &x = after.output.at(row, tile, i);
        x = k.mul(x, alphas[row]);
      }
  tiles.addMatmul(after.output, s, tiles.bytesAt(valueTile(stage), rowBytes));
  return after;
}

void FlashForward::finish(const State &state) {
  Value head = tiles.head();
  Value kept = k.constantF(tiles.keptFactor(), k.f32());
  Values totals, factors;
  for (Value sum : state.sums) {
    totals.push_back(
        tiles.acrossRow(sum, [&](Value x, Value y) { return k.add(x, y); }));
    factors.push_back(k.div(kept, totals.back()));
  }
  tiles.storeOwn(state.output, factors, tiles.rows(oArg, shape.oStride, head),
                 firstQuery);

  Value row = k.add(tiles.times(tiles.sequence(), shape.heads), head);
  Value lse =
      k.element(k.arg(oArg + 1), k.f32(), tiles.times(row, shape.length));
  Value isFirst = k.equal(tiles.t, k.i64Constant(0));
  for (int64_t i : llvm::seq(ownRows())) {
    Value query = tiles.ownRow(firstQuery, i, sizes.groups);
    Value result = k.fma(state.maxima[i], scale, emitLog(k, totals[i]));
    Value exists = k.less(query, k.i64Constant(shape.length));
    k.ifThen(k.bitAnd(isFirst, exists),
             [&] { k.store(result, k.element(lse, k.f32(), query)); });
  }
}

bool suitsTensorCores(const AttentionShape &shape) {
  constexpr int64_t most = 128;
  bool isHalf = shape.elementType.isBF16() || shape.elementType.isF16();
  return isHalf && shape.headDim <= most &&
         shape.headDim % FlashTiles::kGroupRows == 0;
}

FailureOr<KernelLaunch> emitFlashAttention(mlir::gpu::GPUModuleOp kernels,
                                           StringRef name,
                                           const AttentionShape &shape,
                                           Alignments alignments) {
  GpuBuilder k(kernels, name, /*numArgs=*/shape.takesRng ? 6 : 5,
               /*numImmediates=*/2, FlashTiles::kThreads);
  int64_t units = FlashForward(k, shape, alignments).emit();
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{units, 1, FlashTiles::kThreads, k.sharedBytes()};
}

} // namespace kiln::gpu
