//===- AttentionKernel.cpp - Attention with an online softmax -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   attention(q, k, v, o, lse):          // one block of queries of one head
//     m = -1e30; l = 0; o = 0;           // in registers
//     for (tile : tiles of keys) {       // in order
//       s = (scale q) k^T;
//       m' = max(m, max(s)); alpha = exp(m - m'); p = exp(s - m');
//       l = l alpha + sum(p); m = m';
//       o = o alpha + dropout(p) v;      // p in shared memory
//     }
//     o = o / l; lse = m + log(l);
//
// Launch: sequences * heads * ceil(length / queries) blocks of 256 threads,
// with at most 64 queries per block.
// Shared: staged chunks of q, k and v, and one tile of scores, in f32.
// Bytes: each block reads q once per tile of keys, and the k and v that its
// queries attend to; o and lse are written once.
//
// With a causal mask, late blocks of queries take longer and run first.
//
// m starts at -1e30 instead of -inf, so m - m' is NaN only if a score is NaN.
//
//===----------------------------------------------------------------------===//

#include "AttentionTiles.h"
#include "Flash.h"
#include "VectorizedAccess.h"

#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

constexpr double kNoMaximum = -1e30;

using Values = AttentionTiles::Values;
using HeadRows = AttentionTiles::HeadRows;

class AttentionEmitter {
public:
  AttentionEmitter(GpuBuilder &k, const AttentionShape &shape,
                   const AttentionTiles::Sizes &sizes, Alignments alignments)
      : shape(shape), type(fullPrecision(shape.elementType)), k(k),
        sizes(sizes), tiles(k, shape, sizes, alignments) {}
  /// Returns the number of units of work: thread blocks.
  int64_t emit();

private:
  /// The maxima m, the sums l and the output o of a block of queries, after the
  /// tiles of keys that have been processed so far.
  struct State {
    Values maxima, sums, output;
    Values all() const;
  };
  State split(ValueRange values) const;
  State addTile(const State &before, const HeadRows &q, Value firstQuery,
                const HeadRows &keys, const HeadRows &values, Value firstKey);
  void drop(Values &p, Value firstQuery, Value firstKey);
  void finish(State state, Value firstQuery);

  const AttentionShape &shape;
  Type type;
  GpuBuilder &k;
  AttentionTiles::Sizes sizes;
  AttentionTiles tiles;
  Value sequence, head, scale;
};

} // namespace

Values AttentionEmitter::State::all() const {
  Values values = maxima;
  llvm::append_range(values, sums);
  llvm::append_range(values, output);
  return values;
}

AttentionEmitter::State AttentionEmitter::split(ValueRange values) const {
  int64_t rows = tiles.rowsPerThread();
  return {Values(values.take_front(rows)), Values(values.slice(rows, rows)),
          Values(values.drop_front(2 * rows))};
}

int64_t AttentionEmitter::emit() {
  scale =
      arith::TruncFOp::create(k.b, type, k.bitcast(k.immediate(1), k.f64()));
  if (shape.dropout > 0)
    tiles.prepareDropout(k.arg(3), k.immediate(0));

  int64_t blocks = llvm::divideCeil(shape.length, sizes.queries);
  SmallVector<Value> index =
      splitIndex(k, k.block(), {blocks, shape.sequences, shape.heads});
  Value block = index[0];
  if (shape.causal)
    block = k.sub(k.i64Constant(blocks - 1), block);
  sequence = index[1];
  head = index[2];
  tiles.setHead(sequence, head);
  Value first = tiles.times(block, sizes.queries);
  Value kvHead =
      splitIndex(k, head, {shape.kvHeads, shape.heads / shape.kvHeads})[0];
  HeadRows q = tiles.rows(0, shape.qStride, head);
  HeadRows keys = tiles.rows(1, shape.kStride, kvHead);
  HeadRows values = tiles.rows(2, shape.vStride, kvHead);

  int64_t rows = tiles.rowsPerThread();
  State start = {Values(rows, k.constantF(kNoMaximum, type)),
                 Values(rows, k.constantF(0, type)), tiles.noSums(rows)};
  Value end = k.i64Constant(shape.length);
  if (shape.causal)
    end = tiles.atMost(tiles.plus(first, sizes.queries), shape.length);
  Values last = k.loop(
      k.i64Constant(0), end, sizes.keys, start.all(),
      [&](Value firstKey, ValueRange carried) {
        return addTile(split(carried), q, first, keys, values, firstKey).all();
      });
  finish(split(last), first);
  return blocks * shape.sequences * shape.heads;
}

AttentionEmitter::State
AttentionEmitter::addTile(const State &before, const HeadRows &q,
                          Value firstQuery, const HeadRows &keys,
                          const HeadRows &values, Value firstKey) {
  auto add = [&](Value x, Value y) { return k.add(x, y); };
  auto max = [&](Value x, Value y) { return k.max(x, y); };
  Values s = tiles.products(q, firstQuery, scale, keys, firstKey);
  Value hidden = k.constantF(kNoMaximum, type);
  Values seen = tiles.seen(firstQuery, firstKey);
  for (auto [x, isSeen] : llvm::zip(s, seen))
    x = k.select(isSeen, x, hidden);

  State after;
  Values maxima = tiles.reduce(s, max);
  Values alphas;
  for (int64_t i : llvm::seq(tiles.rowsPerThread())) {
    Value maximum = k.max(before.maxima[i], maxima[i]);
    after.maxima.push_back(maximum);
    alphas.push_back(emitExp(k, k.sub(before.maxima[i], maximum)));
    for (int64_t j : llvm::seq(tiles.keysPerThread())) {
      Value &x = s[i * tiles.keysPerThread() + j];
      x = emitExp(k, k.sub(x, maximum));
    }
  }
  Values sums = tiles.reduce(s, add);
  for (int64_t i : llvm::seq(tiles.rowsPerThread()))
    after.sums.push_back(k.fma(before.sums[i], alphas[i], sums[i]));
  if (shape.dropout > 0)
    drop(s, firstQuery, firstKey);

  tiles.setTile(s);
  after.output = before.output;
  int64_t columns = sizes.columns / AttentionTiles::kSide;
  for (auto [i, x] : llvm::enumerate(after.output))
    x = k.mul(alphas[i / columns % tiles.rowsPerThread()], x);
  after.output = tiles.addMatmul(values, firstKey, after.output);
  return after;
}

void AttentionEmitter::drop(Values &p, Value firstQuery, Value firstKey) {
  Value zero = k.constantF(0, type);
  Value factor = k.constantF(tiles.keptFactor(), type);
  for (auto [x, isDropped] :
       llvm::zip_equal(p, tiles.dropped(firstQuery, firstKey)))
    x = k.select(isDropped, zero, k.mul(x, factor));
}

void AttentionEmitter::finish(State state, Value firstQuery) {
  unsigned oArg = shape.takesRng ? 4 : 3;
  int64_t rows = tiles.rowsPerThread();
  int64_t columns = sizes.columns / AttentionTiles::kSide;
  Values inverses;
  for (Value sum : state.sums)
    inverses.push_back(k.div(k.constantF(1, type), sum));
  for (auto [i, x] : llvm::enumerate(state.output))
    x = k.mul(x, inverses[i / columns % rows]);
  tiles.storeSums(state.output, rows, tiles.rows(oArg, shape.oStride, head),
                  firstQuery);

  Value row = k.add(tiles.times(sequence, shape.heads), head);
  Value lse = tiles.at(k.arg(oArg + 1), tiles.times(row, shape.length));
  Value isFirst = k.equal(tiles.across(), k.i64Constant(0));
  for (int64_t i : llvm::seq(rows)) {
    Value query = tiles.query(firstQuery, i);
    Value exists = k.less(query, k.i64Constant(shape.length));
    Value result = k.add(state.maxima[i], emitLog(k, state.sums[i]));
    k.ifThen(k.bitAnd(isFirst, exists),
             [&] { k.store(result, tiles.at(lse, query)); });
  }
}

FailureOr<KernelLaunch> emitAttention(mlir::gpu::GPUModuleOp kernels,
                                      StringRef name,
                                      const AttentionShape &shape,
                                      Alignments alignments) {
  GpuBuilder k(kernels, name, /*numArgs=*/shape.takesRng ? 6 : 5,
               /*numImmediates=*/2, AttentionTiles::kThreads);
  int64_t units = 0;
  if (checkAttentionType(k, shape)) {
    auto sizes = AttentionTiles::chooseSizes(shape, shape.kvTile);
    if (!sizes.queries)
      return kernels.emitError("kernel '")
             << name << "': tiles of " << shape.kvTile
             << " keys do not fit into shared memory";
    units = AttentionEmitter(k, shape, sizes, alignments).emit();
  }
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{units, 1, AttentionTiles::kThreads, k.sharedBytes()};
}

void addAttentionKernel(KernelEmitters &emitters) {
  emitters.add<AttentionOp>([](mlir::gpu::GPUModuleOp kernels,
                               rt::KernelOp kernel, Alignments alignments) {
    AttentionShape shape = readAttention(SingleOp(kernel));
    auto emit = suitsTensorCores(shape) ? emitFlashAttention : emitAttention;
    return emit(kernels, kernel.getSymName(), shape, alignments);
  });
}

} // namespace kiln::gpu
