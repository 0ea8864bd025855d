//===- AttentionKernel.cpp - Attention with an online softmax -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit of work is a range of queries of one head of one sequence. It
// processes the tiles of keys in order. For each tile it packs k^T and v, and
// for each block of 64 queries that attends to some of these keys it computes
//
//   s = (scale q) k^T    in registers, a strip of queries at a time
//   m' = max(m, max s)   alpha = exp(m - m')   p = exp(s - m')
//   l = l alpha + sum p  m = m'
//   o = o alpha + p v    after dropout of p
//
// and finally o / l and lse = m + log l. For a strip of R rows, m, l and alpha
// are one vector of 16 lanes each, in which row r has the 16/R lanes from
// r*16/R on. A vector operation thus computes the values of all rows of a
// strip.
//
// The bits of a result depend on the size of the key tiles but not on the
// number of queries per unit, which only determines how often keys are packed.
//
// m starts at -1e30 instead of -inf, so m - m' is NaN only if a score is NaN. A
// NaN score still propagates to p, l and o.
//
//===----------------------------------------------------------------------===//

#include "AttentionTiles.h"
#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

constexpr double kNoMaximum = -1e30;
/// Maximum queries per unit of work; more would not reduce the cost of packing
/// noticeably.
constexpr int64_t kMaxUnitQueries = 512;
/// Number of units of work that keeps a thread team busy.
constexpr int64_t kEnoughUnits = 24;

/// Returns the number of queries per unit of work: as many as possible while
/// there are at least kEnoughUnits units.
int64_t queriesPerUnit(const AttentionShape &shape) {
  int64_t queries = kMaxUnitQueries;
  while (queries > kRowBlock &&
         shape.sequences * shape.heads *
                 llvm::divideCeil(shape.length, queries) <
             kEnoughUnits)
    queries /= 2;
  return std::min<int64_t>(queries, llvm::alignTo(shape.length, kRowBlock));
}

class AttentionEmitter {
public:
  /// Starts the kernel and lays out its scratch memory.
  AttentionEmitter(ModuleOp module, StringRef name,
                   const AttentionShape &shape);
  KernelLaunch emit();
  int64_t scratchBytes() const { return layout.size(); }

private:
  /// The rows of a unit of work. `q` and `o` point to its first query, `k` and
  /// `v` to key 0.
  struct Place {
    Value sequence, head, first, end;
    Value q, k, v, o;
  };
  Place locate(Value index);
  void unit(Value index);
  /// Computes the scores and the softmax of a strip, the queries of one
  /// register tile. The first query of the strip has the index `rel` in the
  /// unit of work.
  void strip(Value row, Value rel, Value blockRow, Value firstKey);
  void dropBlock(Value row, Value rows, Value firstKey);
  void accumulate(Value row, Value rel, Value rows, Value firstKey);
  void finishUnit(Value rows);

  const AttentionShape &shape;
  bool dropout;
  KernelBuilder k;
  AttentionTiles tiles;
  Type type; ///< Type of scratch memory and arithmetic.
  int64_t keyVectors, rowsPerStrip;
  int64_t rowLanes; ///< Lanes per row in m, l and alpha.
  int64_t unitQueries, unitsPerHead;
  ScratchLayout layout;
  Value scale;
  // Scratch memory.
  Value queries, keys, values, scores, sums, maxima, alphas, output;
  Place current;
};

} // namespace

AttentionEmitter::AttentionEmitter(ModuleOp module, StringRef name,
                                   const AttentionShape &shape)
    : shape(shape), dropout(shape.dropout > 0),
      k(module, name, /*numArgs=*/shape.takesRng ? 6 : 5, /*numImmediates=*/2),
      tiles(k, shape), type(tiles.type()), keyVectors(shape.kvTile / kLanes),
      rowsPerStrip(tiles.stripRows(keyVectors)),
      rowLanes(kLanes / rowsPerStrip), unitQueries(queriesPerUnit(shape)),
      unitsPerHead(llvm::divideCeil(shape.length, unitQueries)) {
  scale = k.bitcast(k.immediate(1), k.f64());
  if (type != k.f64())
    scale = arith::TruncFOp::create(k.b, type, scale);
  scale = k.broadcast(scale);
  if (dropout)
    tiles.prepareDropout(k.arg(3), k.immediate(0));

  auto allocate = [&](int64_t elements) {
    return tiles.scratch(layout.allocate(elementBytes(type, elements)));
  };
  int64_t padded = tiles.paddedDim();
  queries = allocate(unitQueries * padded);
  keys = allocate(shape.kvTile * padded);
  values = allocate(shape.kvTile * padded);
  scores = allocate(kRowBlock * shape.kvTile);
  output = allocate(unitQueries * padded);
  maxima = allocate(unitQueries * rowLanes);
  sums = allocate(unitQueries * rowLanes);
  alphas = allocate(unitQueries * rowLanes);
}

KernelLaunch AttentionEmitter::emit() {
  k.loop(k.begin(), k.end(), 1, [&](Value index) { unit(index); });
  k.finish();
  return {shape.sequences * shape.heads * unitsPerHead, 1, layout.size()};
}

AttentionEmitter::Place AttentionEmitter::locate(Value index) {
  Place place;
  Value units = k.i64Constant(unitsPerHead);
  Value part = k.remUnsigned(index, units);
  if (shape.causal) {
    // Later queries attend to more keys and take longer. Alternate between the
    // first and the last units of a head, so that threads with contiguous
    // ranges of units have about the same work.
    Value half = k.shiftRight(part, 1);
    Value odd = k.equal(k.bitAnd(part, k.i64Constant(1)), k.i64Constant(1));
    part = k.select(odd, k.sub(k.i64Constant(unitsPerHead - 1), half), half);
  }
  Value headIndex = k.divUnsigned(index, units);
  Value heads = k.i64Constant(shape.heads);
  place.head = k.remUnsigned(headIndex, heads);
  place.sequence = k.divUnsigned(headIndex, heads);
  place.first = tiles.times(part, unitQueries);
  place.end = tiles.atMost(tiles.plus(place.first, unitQueries), shape.length);

  Value row = tiles.times(place.sequence, shape.length);
  Value kvHead =
      k.divUnsigned(place.head, k.i64Constant(shape.heads / shape.kvHeads));
  auto address = [&](unsigned arg, Value row, int64_t stride, Value head) {
    return tiles.inTensor(k.arg(arg), k.add(tiles.times(row, stride),
                                            tiles.times(head, shape.headDim)));
  };
  Value queryRow = k.add(row, place.first);
  place.q = address(0, queryRow, shape.qStride, place.head);
  place.k = address(1, row, shape.kStride, kvHead);
  place.v = address(2, row, shape.vStride, kvHead);
  place.o =
      address(shape.takesRng ? 4 : 3, queryRow, shape.oStride, place.head);
  return place;
}

void AttentionEmitter::unit(Value index) {
  current = locate(index);
  Value zero = k.i64Constant(0);
  Value count = k.sub(current.end, current.first);
  Value paddedCount = tiles.roundUp(count, kMaxStripRows);

  tiles.packRows(current.q, shape.qStride, paddedCount, count, queries, scale);
  Value zeros = k.constantF(0, k.vectorOf(type));
  Value start = k.constantF(kNoMaximum, k.vectorOf(type));
  k.loop(zero, tiles.times(paddedCount, tiles.paddedDim()), kLanes,
         [&](Value i) { k.storeVector(zeros, tiles.at(output, i)); });
  k.loop(zero, tiles.times(paddedCount, rowLanes), kLanes, [&](Value i) {
    k.storeVector(start, tiles.at(maxima, i));
    k.storeVector(zeros, tiles.at(sums, i));
  });

  Value keysEnd = shape.causal ? current.end : k.i64Constant(shape.length);
  k.loop(zero, keysEnd, shape.kvTile, [&](Value firstKey) {
    Value keyCount = tiles.atMost(k.sub(k.i64Constant(shape.length), firstKey),
                                  shape.kvTile);
    tiles.packTransposed(
        tiles.inTensor(current.k, tiles.times(firstKey, shape.kStride)),
        shape.kStride, keyCount, keys);
    tiles.packRows(
        tiles.inTensor(current.v, tiles.times(firstKey, shape.vStride)),
        shape.vStride, keyCount, keyCount, values);
    Value low = shape.causal ? k.max(current.first, firstKey) : current.first;
    k.loop(low, current.end, kRowBlock, [&](Value row) {
      Value blockRows = tiles.roundUp(
          tiles.atMost(k.sub(current.end, row), kRowBlock), kMaxStripRows);
      Value rel = k.sub(row, current.first);
      k.loop(zero, blockRows, rowsPerStrip, [&](Value r) {
        strip(k.add(row, r), k.add(rel, r), r, firstKey);
      });
      if (dropout)
        dropBlock(row, blockRows, firstKey);
      accumulate(row, rel, blockRows, firstKey);
    });
  });
  finishUnit(count);
}

void AttentionEmitter::strip(Value row, Value rel, Value blockRow,
                             Value firstKey) {
  SmallVector<Value> seen;
  for (int64_t r : llvm::seq(rowsPerStrip))
    seen.push_back(k.sub(tiles.keysSeenBy(tiles.plus(row, r)), firstKey));
  Matrix a{tiles.at(queries, tiles.times(rel, tiles.paddedDim())),
           tiles.paddedDim()};
  Matrix b{keys, shape.kvTile};
  Value to = tiles.at(scores, tiles.times(blockRow, shape.kvTile));
  Value state = tiles.times(rel, rowLanes);
  auto add = [&](Value x, Value y) { return k.add(x, y); };
  auto max = [&](Value x, Value y) { return k.max(x, y); };

  tiles.forSeenKeys(seen, [&](int64_t vectors, bool masked) {
    Tile s(rowsPerStrip, vectors, k.constantF(0, k.vectorOf(type)));
    s = tiles.multiplyAdd(a, b, k.i64Constant(0), k.i64Constant(shape.headDim),
                          s);
    if (masked) {
      Value hidden = k.constantF(kNoMaximum, k.vectorOf(type));
      for (int64_t r : llvm::seq(s.rows))
        for (int64_t v : llvm::seq(vectors))
          s.at(r, v) = k.select(tiles.keyMask(seen[r], v), s.at(r, v), hidden);
    }
    auto reduce = [&](function_ref<Value(Value, Value)> combine) {
      SmallVector<Value> rows;
      for (int64_t r : llvm::seq(s.rows)) {
        Value x = s.at(r, 0);
        for (int64_t v = 1; v < vectors; ++v)
          x = combine(x, s.at(r, v));
        rows.push_back(x);
      }
      return tiles.reduceRows(rows, combine);
    };
    Value before = tiles.loadVector(tiles.at(maxima, state));
    Value maximum = k.max(before, reduce(max));
    for (int64_t r : llvm::seq(s.rows)) {
      Value rowMaximum = tiles.rowValue(maximum, r, s.rows);
      for (int64_t v : llvm::seq(vectors)) {
        s.at(r, v) = emitExp(k, k.sub(s.at(r, v), rowMaximum));
        k.storeVector(s.at(r, v), tiles.at(to, r * shape.kvTile + v * kLanes));
      }
    }
    Value alpha = emitExp(k, k.sub(before, maximum));
    Value sum = tiles.loadVector(tiles.at(sums, state));
    k.storeVector(maximum, tiles.at(maxima, state));
    k.storeVector(alpha, tiles.at(alphas, state));
    k.storeVector(k.fma(sum, alpha, reduce(add)), tiles.at(sums, state));
  });
}

void AttentionEmitter::dropBlock(Value row, Value rows, Value firstKey) {
  VectorType vector = k.vectorOf(type);
  Value zero = k.constantF(0, vector);
  Value factor = k.constantF(tiles.keptFactor(), vector);
  tiles.forDropped(current.sequence, current.head, row, rows, firstKey,
                   [&](Value r, Value key, ArrayRef<Value> dropped) {
                     Value p = tiles.at(
                         scores, k.add(tiles.times(r, shape.kvTile), key));
                     for (auto [v, mask] : llvm::enumerate(dropped)) {
                       Value address = tiles.at(p, v * kLanes);
                       Value kept = k.mul(tiles.loadVector(address), factor);
                       k.storeVector(k.select(mask, zero, kept), address);
                     }
                   });
}

void AttentionEmitter::accumulate(Value row, Value rel, Value rows,
                                  Value firstKey) {
  int64_t padded = tiles.paddedDim();
  for (ColumnChunk chunk : tiles.columnChunks()) {
    Tile o(tiles.stripRows(chunk.vectors), chunk.vectors);
    k.loop(k.i64Constant(0), rows, o.rows, [&](Value r) {
      Value stripRel = k.add(rel, r);
      Value to = tiles.at(output, k.add(tiles.times(stripRel, padded),
                                        k.i64Constant(chunk.first * kLanes)));
      Value alpha = tiles.at(alphas, tiles.times(stripRel, rowLanes));
      for (int64_t i : llvm::seq(o.rows)) {
        Value factor = k.broadcast(k.load(tiles.at(alpha, i * rowLanes), type));
        for (int64_t v : llvm::seq(o.vectors))
          o.at(i, v) = k.mul(
              factor, tiles.loadVector(tiles.at(to, i * padded + v * kLanes)));
      }
      Value last = k.add(row, tiles.plus(r, o.rows - 1));
      Value seen =
          tiles.atMost(k.sub(tiles.keysSeenBy(last), firstKey), shape.kvTile);
      Matrix a{tiles.at(scores, tiles.times(r, shape.kvTile)), shape.kvTile};
      Matrix b{tiles.at(values, chunk.first * kLanes), padded};
      Tile sum = tiles.multiplyAdd(a, b, k.i64Constant(0), seen, o);
      for (int64_t i : llvm::seq(o.rows))
        for (int64_t v : llvm::seq(o.vectors))
          k.storeVector(sum.at(i, v), tiles.at(to, i * padded + v * kLanes));
    });
  }
}

void AttentionEmitter::finishUnit(Value rows) {
  Value one = k.constantF(1, k.vectorOf(type));
  k.loop(k.i64Constant(0), tiles.times(rows, rowLanes), kLanes, [&](Value i) {
    Value sum = tiles.loadVector(tiles.at(sums, i));
    Value maximum = tiles.loadVector(tiles.at(maxima, i));
    k.storeVector(k.div(one, sum), tiles.at(alphas, i));
    k.storeVector(k.add(maximum, emitLog(k, sum)), tiles.at(maxima, i));
  });

  Value lseRow =
      k.add(tiles.times(current.sequence, shape.heads), current.head);
  Value lse = tiles.at(k.arg(shape.takesRng ? 5 : 4),
                       k.add(tiles.times(lseRow, shape.length), current.first));
  k.loop(k.i64Constant(0), rows, 1, [&](Value i) {
    Value state = tiles.times(i, rowLanes);
    k.store(k.load(tiles.at(maxima, state), type), tiles.at(lse, i));
    Value inverse = k.broadcast(k.load(tiles.at(alphas, state), type));
    Value from = tiles.at(output, tiles.times(i, tiles.paddedDim()));
    Value to = tiles.inTensor(current.o, tiles.times(i, shape.oStride));
    tiles.prefetchStores(to, shape.oStride);
    for (int64_t v : llvm::seq(tiles.paddedDim() / kLanes))
      tiles.storeTensor(
          k.mul(tiles.loadVector(tiles.at(from, v * kLanes)), inverse),
          tiles.inTensor(to, v * kLanes), tiles.columnMask(v));
  });
}

KernelLaunch emitAttention(ModuleOp module, StringRef name,
                           const AttentionShape &shape) {
  return AttentionEmitter(module, name, shape).emit();
}

void addAttentionKernel(KernelEmitters &emitters) {
  emitters.add<AttentionOp>(
      {[](ModuleOp module, rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
         return emitAttention(module, kernel.getSymName(),
                              readAttention(SingleOp(kernel)));
       },
       [](rt::KernelOp kernel) {
         OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
         AttentionShape shape = readAttention(SingleOp(kernel));
         return AttentionEmitter(*module, kernel.getSymName(), shape)
             .scratchBytes();
       }});
}

} // namespace kiln::cpu
