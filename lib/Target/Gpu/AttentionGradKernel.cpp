//===- AttentionGradKernel.cpp - Gradients of attention -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   attention_grad(q, k, v, o, lse, dout, dq, dk, dv):
//     if (blockIdx.x < key units)        // one tile of keys of one key head
//       for (head : query heads of the key head)
//         for (block : blocks of queries) {
//           dv += p^T dout; dk += ds^T (scale q);
//         }
//     else                               // one block of queries of one head
//       for (tile : tiles of keys)
//         dq += ds k;                    // dq is scaled at the end
//
//     // Recomputed for each pair of query block and key tile:
//     //   p = exp((scale q) k^T - lse); dp = dout v^T; ds = p (dp - D);
//     //   D = rowsum(dout * o)
//
// Launch: ceil(length / 64) * sequences * kvHeads + ceil(length / queries) *
// sequences * heads blocks of 256 threads, with at most 64 queries per block.
// Shared: staged chunks of rows and one tile of p or ds, in f32.
// Bytes: gradients are written once; no intermediate results are stored.
//
// dk and dv are summed over the query heads that use the key head, then over
// queries, and dq over keys, always in order. Each sum is computed by one
// block.
//
// With dropout, dv is computed from p after dropout, and ds from dp after
// dropout. D is unchanged, because o is already the result after dropout.
//
// With a causal mask, late blocks of queries and early tiles of keys take
// longer and run first.
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

/// Keys per tile; the number does not affect the result.
constexpr int64_t kKeys = 64;

using Values = AttentionTiles::Values;
using HeadRows = AttentionTiles::HeadRows;

class AttentionGradEmitter {
public:
  AttentionGradEmitter(GpuBuilder &k, const AttentionGradShape &shape,
                       const AttentionTiles::Sizes &sizes,
                       Alignments alignments)
      : shape(shape), type(fullPrecision(shape.elementType)), k(k),
        sizes(sizes), tiles(k, shape, sizes, alignments),
        group(shape.heads / shape.kvHeads), dqArg(shape.takesRng ? 7 : 6) {}
  /// Returns the number of units of work: thread blocks.
  int64_t emit();

private:
  /// The inputs of a query head that have one row per query.
  struct QueryHead {
    HeadRows q, o, dout;
    Value lse; ///< Address of the lse of the first query.
  };
  QueryHead setQueryHead(Value head);
  /// The values of lse and of D = rowsum(dout * o) for the queries of a thread.
  /// `sums` has the values of D.
  struct Rows {
    Values lse, sums;
  };
  Rows readRows(const QueryHead &from, Value firstQuery);
  /// The probabilities p after dropout, which are the weights in dv = p^T dout,
  /// and the gradients ds of the scores.
  struct Scores {
    Values p, ds;
  };
  Scores scores(const QueryHead &from, const Rows &rows, Value firstQuery,
                Value firstKey);

  void keyTile(Value unit);
  void queryBlock(Value unit);

  const AttentionGradShape &shape;
  Type type;
  GpuBuilder &k;
  AttentionTiles::Sizes sizes;
  AttentionTiles tiles;
  int64_t group; ///< Query heads per key head.
  unsigned dqArg;
  Value scale;
  // State of the current unit of work.
  Value sequence;
  HeadRows keys, values;
};

} // namespace

int64_t AttentionGradEmitter::emit() {
  scale =
      arith::TruncFOp::create(k.b, type, k.bitcast(k.immediate(1), k.f64()));
  if (shape.dropout > 0)
    tiles.prepareDropout(k.arg(6), k.immediate(0));
  int64_t keyUnits = llvm::divideCeil(shape.length, sizes.keys) *
                     shape.sequences * shape.kvHeads;
  int64_t queryUnits = llvm::divideCeil(shape.length, sizes.queries) *
                       shape.sequences * shape.heads;
  Value split = k.i64Constant(keyUnits);
  k.ifThen(
      k.less(k.block(), split), [&] { keyTile(k.block()); },
      [&] { queryBlock(k.sub(k.block(), split)); });
  return keyUnits + queryUnits;
}

AttentionGradEmitter::QueryHead AttentionGradEmitter::setQueryHead(Value head) {
  tiles.setHead(sequence, head);
  Value row = k.add(tiles.times(sequence, shape.heads), head);
  return {tiles.rows(0, shape.qStride, head),
          tiles.rows(3, shape.oStride, head),
          tiles.rows(5, shape.doutStride, head),
          tiles.at(k.arg(4), tiles.times(row, shape.length))};
}

AttentionGradEmitter::Rows AttentionGradEmitter::readRows(const QueryHead &from,
                                                          Value firstQuery) {
  Rows rows;
  rows.sums = tiles.rowSums(from.o, from.dout, firstQuery);
  for (int64_t i : llvm::seq(tiles.rowsPerThread())) {
    Value query = tiles.existingQuery(firstQuery, i);
    rows.lse.push_back(k.load(tiles.at(from.lse, query), type));
  }
  return rows;
}

AttentionGradEmitter::Scores AttentionGradEmitter::scores(const QueryHead &from,
                                                          const Rows &rows,
                                                          Value firstQuery,
                                                          Value firstKey) {
  Value zero = k.constantF(0, type);
  Value factor = k.constantF(tiles.keptFactor(), type);
  int64_t keysPerThread = tiles.keysPerThread();
  Values p = tiles.products(from.q, firstQuery, scale, keys, firstKey);
  Values seen = tiles.seen(firstQuery, firstKey);
  for (auto [i, x] : llvm::enumerate(p)) {
    x = emitExp(k, k.sub(x, rows.lse[i / keysPerThread]));
    if (!seen.empty())
      x = k.select(seen[i], x, zero);
  }
  Values ds = tiles.products(from.dout, firstQuery, {}, values, firstKey);
  Values dropped;
  if (shape.dropout > 0)
    dropped = tiles.dropped(firstQuery, firstKey);
  for (auto [i, x] : llvm::enumerate(ds)) {
    if (!dropped.empty())
      x = k.select(dropped[i], zero, k.mul(x, factor));
    x = k.mul(p[i], k.sub(x, rows.sums[i / keysPerThread]));
    if (!dropped.empty())
      p[i] = k.select(dropped[i], zero, k.mul(p[i], factor));
  }
  return {p, ds};
}

void AttentionGradEmitter::keyTile(Value unit) {
  SmallVector<Value> index =
      splitIndex(k, unit,
                 {int64_t(llvm::divideCeil(shape.length, sizes.keys)),
                  shape.sequences, shape.kvHeads});
  Value firstKey = tiles.times(index[0], sizes.keys), kvHead = index[2];
  sequence = index[1];
  tiles.setHead(sequence, kvHead);
  keys = tiles.rows(1, shape.kStride, kvHead);
  values = tiles.rows(2, shape.vStride, kvHead);
  Value zero = k.i64Constant(0);

  Values start = tiles.noSums(tiles.keysPerThread());
  size_t count = start.size();
  llvm::append_range(start, tiles.noSums(tiles.keysPerThread()));
  Values sums = k.loop(
      zero, k.i64Constant(group), 1, start,
      [&](Value member, ValueRange carried) {
        QueryHead from =
            setQueryHead(k.add(tiles.times(kvHead, group), member));
        return k.loop(
            shape.causal ? firstKey : zero, k.i64Constant(shape.length),
            sizes.queries, carried, [&](Value firstQuery, ValueRange carried) {
              Rows rows = readRows(from, firstQuery);
              Scores s = scores(from, rows, firstQuery, firstKey);
              tiles.setTile(s.p);
              Values dv = tiles.addTransposed(
                  from.dout, firstQuery, {}, Values(carried.take_front(count)));
              tiles.setTile(s.ds);
              Values dk = tiles.addTransposed(
                  from.q, firstQuery, scale, Values(carried.drop_front(count)));
              llvm::append_range(dv, dk);
              return dv;
            });
      });
  auto store = [&](ArrayRef<Value> sums, unsigned arg, int64_t stride) {
    tiles.storeSums(Values(sums), tiles.keysPerThread(),
                    tiles.rows(arg, stride, kvHead), firstKey);
  };
  store(ArrayRef(sums).drop_front(count), dqArg + 1, shape.dkStride);
  store(ArrayRef(sums).take_front(count), dqArg + 2, shape.dvStride);
}

void AttentionGradEmitter::queryBlock(Value unit) {
  int64_t blocks = llvm::divideCeil(shape.length, sizes.queries);
  SmallVector<Value> index =
      splitIndex(k, unit, {blocks, shape.sequences, shape.heads});
  Value block = index[0], head = index[2];
  if (shape.causal)
    block = k.sub(k.i64Constant(blocks - 1), block);
  Value first = tiles.times(block, sizes.queries);
  sequence = index[1];
  QueryHead from = setQueryHead(head);
  Value kvHead = splitIndex(k, head, {shape.kvHeads, group})[0];
  keys = tiles.rows(1, shape.kStride, kvHead);
  values = tiles.rows(2, shape.vStride, kvHead);

  Rows rows = readRows(from, first);
  Value end = k.i64Constant(shape.length);
  if (shape.causal)
    end = tiles.atMost(tiles.plus(first, sizes.queries), shape.length);
  Values dq = k.loop(k.i64Constant(0), end, sizes.keys,
                     tiles.noSums(tiles.rowsPerThread()),
                     [&](Value firstKey, ValueRange carried) {
                       Scores s = scores(from, rows, first, firstKey);
                       tiles.setTile(s.ds);
                       return tiles.addMatmul(keys, firstKey, Values(carried));
                     });
  for (Value &x : dq)
    x = k.mul(x, scale);
  tiles.storeSums(dq, tiles.rowsPerThread(),
                  tiles.rows(dqArg, shape.dqStride, head), first);
}

FailureOr<KernelLaunch> emitAttentionGrad(mlir::gpu::GPUModuleOp kernels,
                                          StringRef name,
                                          const AttentionGradShape &shape,
                                          Alignments alignments) {
  GpuBuilder k(kernels, name, /*numArgs=*/shape.takesRng ? 10 : 9,
               /*numImmediates=*/2, AttentionTiles::kThreads);
  int64_t units = 0;
  if (checkAttentionType(k, shape)) {
    auto sizes = AttentionTiles::chooseSizes(shape, kKeys);
    assert(sizes.queries && "tiles of 64 keys always fit");
    units = AttentionGradEmitter(k, shape, sizes, alignments).emit();
  }
  if (failed(k.finish()))
    return failure();
  return KernelLaunch{units, 1, AttentionTiles::kThreads, k.sharedBytes()};
}

void addAttentionGradKernel(KernelEmitters &emitters) {
  emitters.add<AttentionGradOp>([](mlir::gpu::GPUModuleOp kernels,
                                   rt::KernelOp kernel, Alignments alignments) {
    AttentionGradShape shape = readAttentionGrad(SingleOp(kernel));
    auto emit =
        suitsTensorCores(shape) ? emitFlashAttentionGrad : emitAttentionGrad;
    return emit(kernels, kernel.getSymName(), shape, alignments);
  });
}

} // namespace kiln::gpu
