//===- AttentionGradKernel.cpp - Gradients of attention -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit of work is one key head of one sequence. For each query head that uses
// the key head, and for each panel of up to 512 queries, it packs scale * q and
// dout and computes D = rowsum(dout * o). For each tile of keys that the panel
// attends to, it packs k, k^T and v^T, and for each block of 64 queries it
// computes
//
//   p  = exp((scale q) k^T - lse)   dp = dout v^T   ds = p (dp - D)
//   dv += p^T dout   dk += ds^T (scale q)   dq += ds k
//
// dq of the panel stays in scratch memory and is scaled when it is stored.
// While a tile of keys is processed, its dk and dv are in scratch memory.
// Between panels, dk and dv are stored in the results, which the first panel
// initializes. If the results have a narrow type such as bf16, storing would
// round the sums, so dk and dv of all keys stay in scratch memory until the
// last panel.
//
// dk and dv are thus summed over query heads, then queries, and dq over keys,
// always in this order. With few key heads, the work is split further: some
// units own a tile of keys and compute its dk and dv, and others own a block of
// queries and compute its dq. The order of the sums is the same, and therefore
// so are the bits.
//
// With dropout, dv is computed from p after dropout, and ds from dp after
// dropout. D = rowsum(dout * o) is unchanged, because o is already the result
// after dropout.
//
//===----------------------------------------------------------------------===//

#include "AttentionTiles.h"
#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

/// A unit of work is one key head if sequences * kvHeads >= kEnoughHeads or
/// length <= kRowBlock. Otherwise, a unit is a tile of keys or a block of
/// queries.
constexpr int64_t kEnoughHeads = 4;
/// Queries per panel; tiles of keys are packed once per panel.
constexpr int64_t kPanelQueries = 512;

class AttentionGradEmitter {
public:
  /// Starts the kernel and lays out its scratch memory.
  AttentionGradEmitter(ModuleOp module, StringRef name,
                       const AttentionGradShape &shape);
  KernelLaunch emit();
  int64_t scratchBytes() const { return layout.size(); }

private:
  /// The results that a unit of work computes.
  enum class Role { Everything, Keys, Queries };

  void wholeHead(Value index);
  void oneKeyTile(Value index);
  void oneQueryBlock(Value index);

  void setKeyHead(Value index);
  void setQueryHead(Value index) { head = index; }
  /// Return the address of row `row` of the current query head or key head in
  /// argument `arg`.
  Value queryRow(unsigned arg, Value row, int64_t stride);
  Value keyRow(unsigned arg, Value row, int64_t stride);
  Value keyCount(Value firstKey);
  /// Returns the number of rows of dk and dv in scratch memory, which is a
  /// multiple of the tile size.
  int64_t sumRows() const {
    return keepsSums ? llvm::alignTo(shape.length, shape.kvTile) : shape.kvTile;
  }

  void packPanel(Value first, Value end);
  void packKeys(Value firstKey, Role role);
  void startSums(Value sum, int64_t rows);
  void startTile(Value member, Value first, Value firstKey);
  void loadSums(unsigned arg, int64_t stride, Value firstKey, Value isFirst,
                Value sum);
  void storeSums(Value firstKey, Value count);
  /// Processes all blocks of queries in the panel that attend to keys of the
  /// packed tile.
  void panelTile(Value first, Value end, Value firstKey, Role role);
  /// Computes p and ds of a strip, the queries of one register tile. The first
  /// query of the strip has the index `rel` in the panel.
  void strip(Value query, Value rel, Value blockRow, Value firstKey);
  void dropBlock(Value firstQuery, Value rel, Value rows, Value firstKey);
  void addTransposed(Value weights, Value rows, Value sum, Value firstQuery,
                     Value firstKey);
  void addToQueries(Value firstQuery, Value rel, Value firstKey, Value rows);

  const AttentionGradShape &shape;
  bool dropout;
  KernelBuilder k;
  AttentionTiles tiles;
  Type type;     ///< Type of scratch memory and arithmetic.
  int64_t group; ///< Query heads per key head.
  int64_t padded, keyVectors, rowsPerStrip, panelQueries;
  unsigned dqArg;
  bool splitsHeads; ///< A unit of work is only a part of a key head.
  bool roundsSums;  ///< The type of dk and dv is too narrow for the sums.
  bool keepsSums;   ///< dk and dv of all keys are in scratch memory.
  ScratchLayout layout;
  Value zero, scale;
  // Scratch memory.
  Value keys, keysTransposed, valuesTransposed; // One tile.
  Value dk, dv;                          // One tile; all keys if keepsSums.
  Value queries, gradients, dq, rowSums; // One panel.
  Value p, ds;                           // One block by one tile.
  // State of the current unit of work.
  Value sequence, keyHead, head;
};

} // namespace

AttentionGradEmitter::AttentionGradEmitter(ModuleOp module, StringRef name,
                                           const AttentionGradShape &shape)
    : shape(shape), dropout(shape.dropout > 0),
      k(module, name, /*numArgs=*/shape.takesRng ? 10 : 9, /*numImmediates=*/2),
      tiles(k, shape), type(tiles.type()), group(shape.heads / shape.kvHeads),
      padded(tiles.paddedDim()), keyVectors(shape.kvTile / kLanes),
      rowsPerStrip(tiles.stripRows(keyVectors)),
      panelQueries(std::min<int64_t>(kPanelQueries,
                                     llvm::alignTo(shape.length, kRowBlock))),
      dqArg(shape.takesRng ? 7 : 6),
      splitsHeads(shape.sequences * shape.kvHeads < kEnoughHeads &&
                  shape.length > kRowBlock),
      roundsSums(type != shape.elementType),
      keepsSums(roundsSums && !splitsHeads &&
                (group > 1 || shape.length > panelQueries)) {
  zero = k.i64Constant(0);
  scale = k.bitcast(k.immediate(1), k.f64());
  if (type != k.f64())
    scale = arith::TruncFOp::create(k.b, type, scale);
  scale = k.broadcast(scale);
  if (dropout)
    tiles.prepareDropout(k.arg(6), k.immediate(0));

  auto allocate = [&](int64_t elements) {
    return tiles.scratch(layout.allocate(elementBytes(type, elements)));
  };
  for (Value *tile : {&keys, &keysTransposed, &valuesTransposed})
    *tile = allocate(shape.kvTile * padded);
  for (Value *sum : {&dk, &dv})
    *sum = allocate(sumRows() * padded);
  for (Value *panel : {&queries, &gradients, &dq})
    *panel = allocate(panelQueries * padded);
  rowSums = allocate(panelQueries);
  p = allocate(kRowBlock * shape.kvTile);
  ds = allocate(kRowBlock * shape.kvTile);
}

KernelLaunch AttentionGradEmitter::emit() {
  int64_t keyHeads = shape.sequences * shape.kvHeads;
  int64_t keyTiles = llvm::divideCeil(shape.length, shape.kvTile);
  int64_t units = keyHeads;
  if (!splitsHeads) {
    k.loop(k.begin(), k.end(), 1, [&](Value i) { wholeHead(i); });
  } else {
    int64_t keyUnits = keyHeads * keyTiles;
    units = keyUnits + shape.sequences * shape.heads *
                           llvm::divideCeil(shape.length, kRowBlock);
    Value split = k.i64Constant(keyUnits);
    k.loop(k.begin(), k.min(k.end(), split), 1,
           [&](Value i) { oneKeyTile(i); });
    k.loop(k.max(k.begin(), split), k.end(), 1,
           [&](Value i) { oneQueryBlock(k.sub(i, split)); });
  }
  k.finish();
  return {units, 1, layout.size()};
}

//===----------------------------------------------------------------------===//
// Units of work
//===----------------------------------------------------------------------===//

void AttentionGradEmitter::setKeyHead(Value index) {
  Value heads = k.i64Constant(shape.kvHeads);
  sequence = k.divUnsigned(index, heads);
  keyHead = k.remUnsigned(index, heads);
}

void AttentionGradEmitter::wholeHead(Value index) {
  setKeyHead(index);
  Value length = k.i64Constant(shape.length);
  Value headDk = dk, headDv = dv;
  if (keepsSums) {
    startSums(headDk, sumRows());
    startSums(headDv, sumRows());
  }
  k.loop(zero, k.i64Constant(group), 1, [&](Value member) {
    setQueryHead(k.add(tiles.times(keyHead, group), member));
    k.loop(zero, length, panelQueries, [&](Value first) {
      Value end = tiles.atMost(tiles.plus(first, panelQueries), shape.length);
      packPanel(first, end);
      startSums(dq, panelQueries);
      k.loop(zero, shape.causal ? end : length, shape.kvTile,
             [&](Value firstKey) {
               packKeys(firstKey, Role::Everything);
               if (keepsSums) {
                 Value row = tiles.times(firstKey, padded);
                 dk = tiles.at(headDk, row);
                 dv = tiles.at(headDv, row);
               } else {
                 startTile(member, first, firstKey);
               }
               panelTile(first, end, firstKey, Role::Everything);
               if (!keepsSums)
                 storeSums(firstKey, keyCount(firstKey));
             });
      tiles.unpackRows(dq, k.sub(end, first),
                       queryRow(dqArg, first, shape.dqStride), shape.dqStride,
                       scale);
    });
  });
  dk = headDk;
  dv = headDv;
  if (keepsSums)
    storeSums(zero, length);
}

void AttentionGradEmitter::oneKeyTile(Value index) {
  Value keyTiles = k.i64Constant(llvm::divideCeil(shape.length, shape.kvTile));
  setKeyHead(k.divUnsigned(index, keyTiles));
  Value firstKey = tiles.times(k.remUnsigned(index, keyTiles), shape.kvTile);
  packKeys(firstKey, Role::Keys);
  startSums(dk, shape.kvTile);
  startSums(dv, shape.kvTile);
  k.loop(zero, k.i64Constant(group), 1, [&](Value member) {
    setQueryHead(k.add(tiles.times(keyHead, group), member));
    k.loop(shape.causal ? firstKey : zero, k.i64Constant(shape.length),
           panelQueries, [&](Value first) {
             Value end =
                 tiles.atMost(tiles.plus(first, panelQueries), shape.length);
             packPanel(first, end);
             panelTile(first, end, firstKey, Role::Keys);
           });
  });
  storeSums(firstKey, keyCount(firstKey));
}

void AttentionGradEmitter::oneQueryBlock(Value index) {
  Value blocks = k.i64Constant(llvm::divideCeil(shape.length, kRowBlock));
  Value heads = k.i64Constant(shape.heads);
  Value sequenceHead = k.divUnsigned(index, blocks);
  Value queryHead = k.remUnsigned(sequenceHead, heads);
  Value keyHeadOfSequence = k.divUnsigned(queryHead, k.i64Constant(group));
  setKeyHead(
      k.add(tiles.times(k.divUnsigned(sequenceHead, heads), shape.kvHeads),
            keyHeadOfSequence));
  setQueryHead(queryHead);
  Value first = tiles.times(k.remUnsigned(index, blocks), kRowBlock);
  Value end = tiles.atMost(tiles.plus(first, kRowBlock), shape.length);
  packPanel(first, end);
  startSums(dq, panelQueries);
  k.loop(zero, shape.causal ? end : k.i64Constant(shape.length), shape.kvTile,
         [&](Value firstKey) {
           packKeys(firstKey, Role::Queries);
           panelTile(first, end, firstKey, Role::Queries);
         });
  tiles.unpackRows(dq, k.sub(end, first),
                   queryRow(dqArg, first, shape.dqStride), shape.dqStride,
                   scale);
}

//===----------------------------------------------------------------------===//
// Computations of a unit of work
//===----------------------------------------------------------------------===//

Value AttentionGradEmitter::queryRow(unsigned arg, Value row, int64_t stride) {
  Value globalRow = k.add(tiles.times(sequence, shape.length), row);
  return tiles.inTensor(k.arg(arg), k.add(tiles.times(globalRow, stride),
                                          tiles.times(head, shape.headDim)));
}

Value AttentionGradEmitter::keyRow(unsigned arg, Value row, int64_t stride) {
  Value globalRow = k.add(tiles.times(sequence, shape.length), row);
  return tiles.inTensor(k.arg(arg), k.add(tiles.times(globalRow, stride),
                                          tiles.times(keyHead, shape.headDim)));
}

Value AttentionGradEmitter::keyCount(Value firstKey) {
  return tiles.atMost(k.sub(k.i64Constant(shape.length), firstKey),
                      shape.kvTile);
}

void AttentionGradEmitter::packPanel(Value first, Value end) {
  Value count = k.sub(end, first);
  Value paddedCount = tiles.roundUp(count, kMaxStripRows);
  tiles.packRows(queryRow(0, first, shape.qStride), shape.qStride, paddedCount,
                 count, queries, scale);
  tiles.packRows(queryRow(5, first, shape.doutStride), shape.doutStride,
                 paddedCount, count, gradients);
  Value o = queryRow(3, first, shape.oStride);
  k.loop(zero, count, 1, [&](Value row) {
    Value oRow = tiles.inTensor(o, tiles.times(row, shape.oStride));
    Value doutRow = tiles.at(gradients, tiles.times(row, padded));
    Value sum = k.constantF(0, k.vectorOf(type));
    for (int64_t v : llvm::seq(padded / kLanes))
      sum = k.fma(tiles.loadTensor(tiles.inTensor(oRow, v * kLanes),
                                   tiles.columnMask(v)),
                  tiles.loadVector(tiles.at(doutRow, v * kLanes)), sum);
    k.store(k.sumLanes(sum), tiles.at(rowSums, row));
  });
}

void AttentionGradEmitter::packKeys(Value firstKey, Role role) {
  Value count = keyCount(firstKey);
  Value source = keyRow(1, firstKey, shape.kStride);
  tiles.packTransposed(source, shape.kStride, count, keysTransposed);
  tiles.packTransposed(keyRow(2, firstKey, shape.vStride), shape.vStride, count,
                       valuesTransposed);
  if (role != Role::Keys)
    tiles.packRows(source, shape.kStride, count, count, keys);
}

void AttentionGradEmitter::startSums(Value sum, int64_t rows) {
  Value zeros = k.constantF(0, k.vectorOf(type));
  k.loop(zero, k.i64Constant(rows * padded), kLanes,
         [&](Value i) { k.storeVector(zeros, tiles.at(sum, i)); });
}

/// Initializes dk and dv of a tile of keys. If earlier panels or query heads
/// have added to them, loads these sums from the results. Otherwise, sets them
/// to zero.
void AttentionGradEmitter::startTile(Value member, Value first,
                                     Value firstKey) {
  // This function is called only if a unit of work is a whole key head and
  // keepsSums is false. If roundsSums is true, the key head then has only one
  // query head with one panel, so nothing has been added to the tile yet.
  if (roundsSums) {
    startSums(dk, shape.kvTile);
    startSums(dv, shape.kvTile);
    return;
  }
  // `isFirst` is true for the first query head of the group, in the first panel
  // whose queries attend to the tile.
  Value seenBefore = shape.causal ? k.sub(first, firstKey) : first;
  Value isFirst =
      k.bitAnd(k.equal(member, zero), k.less(seenBefore, k.i64Constant(1)));
  loadSums(dqArg + 1, shape.dkStride, firstKey, isFirst, dk);
  loadSums(dqArg + 2, shape.dvStride, firstKey, isFirst, dv);
}

void AttentionGradEmitter::loadSums(unsigned arg, int64_t stride,
                                    Value firstKey, Value isFirst, Value sum) {
  k.ifThen(
      isFirst, [&] { startSums(sum, shape.kvTile); },
      [&] {
        Value count = keyCount(firstKey);
        tiles.packRows(keyRow(arg, firstKey, stride), stride, count, count,
                       sum);
      });
}

void AttentionGradEmitter::storeSums(Value firstKey, Value count) {
  tiles.unpackRows(dk, count, keyRow(dqArg + 1, firstKey, shape.dkStride),
                   shape.dkStride);
  tiles.unpackRows(dv, count, keyRow(dqArg + 2, firstKey, shape.dvStride),
                   shape.dvStride);
}

void AttentionGradEmitter::panelTile(Value first, Value end, Value firstKey,
                                     Role role) {
  Value low = shape.causal ? k.max(first, firstKey) : first;
  k.loop(low, end, kRowBlock, [&](Value query) {
    Value rows = tiles.atMost(k.sub(end, query), kRowBlock);
    Value paddedRows = tiles.roundUp(rows, kMaxStripRows);
    Value rel = k.sub(query, first);
    k.loop(zero, paddedRows, rowsPerStrip, [&](Value r) {
      strip(k.add(query, r), k.add(rel, r), r, firstKey);
    });
    if (dropout)
      dropBlock(query, rel, paddedRows, firstKey);
    Value blockRow = tiles.times(rel, padded);
    if (role != Role::Queries) {
      addTransposed(p, tiles.at(gradients, blockRow), dv, query, firstKey);
      addTransposed(ds, tiles.at(queries, blockRow), dk, query, firstKey);
    }
    if (role != Role::Keys)
      addToQueries(query, rel, firstKey, paddedRows);
  });
}

void AttentionGradEmitter::strip(Value query, Value rel, Value blockRow,
                                 Value firstKey) {
  Value lse = tiles.at(
      k.arg(4), tiles.times(k.add(tiles.times(sequence, shape.heads), head),
                            shape.length));
  Value first = k.sub(query, rel);
  SmallVector<Value> seen, rowLse, rowSum;
  for (int64_t r : llvm::seq(rowsPerStrip)) {
    Value row = tiles.existingRow(tiles.plus(query, r));
    Value sum = tiles.at(rowSums, k.sub(row, first));
    seen.push_back(k.sub(tiles.keysSeenBy(row), firstKey));
    rowLse.push_back(k.broadcast(k.load(tiles.at(lse, row), type)));
    rowSum.push_back(k.broadcast(k.load(sum, type)));
  }
  Value stripRow = tiles.times(rel, padded);
  Value toP = tiles.at(p, tiles.times(blockRow, shape.kvTile));
  Value toDs = tiles.at(ds, tiles.times(blockRow, shape.kvTile));
  Value low = zero, high = k.i64Constant(shape.headDim);

  tiles.forSeenKeys(seen, [&](int64_t vectors, bool masked) {
    Value zeros = k.constantF(0, k.vectorOf(type));
    Tile s(rowsPerStrip, vectors, zeros);
    s = tiles.multiplyAdd({tiles.at(queries, stripRow), padded},
                          {keysTransposed, shape.kvTile}, low, high, s);
    for (int64_t r : llvm::seq(s.rows))
      for (int64_t v : llvm::seq(vectors)) {
        Value x = emitExp(k, k.sub(s.at(r, v), rowLse[r]));
        if (masked)
          x = k.select(tiles.keyMask(seen[r], v), x, zeros);
        k.storeVector(x, tiles.at(toP, r * shape.kvTile + v * kLanes));
      }
    Tile dp(rowsPerStrip, vectors, zeros);
    dp = tiles.multiplyAdd({tiles.at(gradients, stripRow), padded},
                           {valuesTransposed, shape.kvTile}, low, high, dp);
    for (int64_t r : llvm::seq(s.rows))
      for (int64_t v : llvm::seq(vectors)) {
        int64_t offset = r * shape.kvTile + v * kLanes;
        Value x = dp.at(r, v);
        if (!dropout)
          x = k.mul(tiles.loadVector(tiles.at(toP, offset)),
                    k.sub(x, rowSum[r]));
        k.storeVector(x, tiles.at(toDs, offset));
      }
  });
}

void AttentionGradEmitter::dropBlock(Value firstQuery, Value rel, Value rows,
                                     Value firstKey) {
  Value first = k.sub(firstQuery, rel);
  VectorType vector = k.vectorOf(type);
  Value zeros = k.constantF(0, vector);
  Value factor = k.constantF(tiles.keptFactor(), vector);
  tiles.forDropped(
      sequence, head, firstQuery, rows, firstKey,
      [&](Value row, Value key, ArrayRef<Value> dropped) {
        Value query = tiles.existingRow(k.add(firstQuery, row));
        Value sum =
            k.broadcast(k.load(tiles.at(rowSums, k.sub(query, first)), type));
        Value offset = k.add(tiles.times(row, shape.kvTile), key);
        for (auto [v, mask] : llvm::enumerate(dropped)) {
          Value pAddress = tiles.at(p, tiles.plus(offset, v * kLanes));
          Value dsAddress = tiles.at(ds, tiles.plus(offset, v * kLanes));
          Value x = tiles.loadVector(pAddress);
          Value dp = k.mul(tiles.loadVector(dsAddress), factor);
          dp = k.select(mask, zeros, dp);
          k.storeVector(k.mul(x, k.sub(dp, sum)), dsAddress);
          k.storeVector(k.select(mask, zeros, k.mul(x, factor)), pAddress);
        }
      });
}

/// Adds weights^T * rows to `sum` for the keys of the tile that the block of
/// queries attends to. The sum of a key is over the queries of the block that
/// attend to the key.
void AttentionGradEmitter::addTransposed(Value weights, Value rows, Value sum,
                                         Value firstQuery, Value firstKey) {
  Value queryEnd =
      tiles.atMost(tiles.plus(firstQuery, kRowBlock), shape.length);
  Value count = k.sub(queryEnd, firstQuery);
  Value keyEnd = shape.causal ? queryEnd : k.i64Constant(shape.length);
  Value keyCount = tiles.atMost(k.sub(keyEnd, firstKey), shape.kvTile);
  for (ColumnChunk chunk : tiles.columnChunks()) {
    Tile c(tiles.stripRows(chunk.vectors), chunk.vectors);
    k.loop(zero, keyCount, c.rows, [&](Value key) {
      Value low = zero;
      if (shape.causal)
        low = k.max(zero, k.sub(k.add(firstKey, key), firstQuery));
      Value to = tiles.at(
          sum, tiles.plus(tiles.times(key, padded), chunk.first * kLanes));
      Matrix a{tiles.at(weights, key), /*rowStride=*/1, shape.kvTile};
      Matrix b{tiles.at(rows, chunk.first * kLanes), padded};
      tiles.addMatmul(a, b, low, count, {to, padded}, c);
    });
  }
}

/// Computes dq += ds k in strips of queries (register tiles). The sum of a
/// strip is over the keys that its queries attend to.
void AttentionGradEmitter::addToQueries(Value firstQuery, Value rel,
                                        Value firstKey, Value rows) {
  for (ColumnChunk chunk : tiles.columnChunks()) {
    Tile c(tiles.stripRows(chunk.vectors), chunk.vectors);
    k.loop(zero, rows, c.rows, [&](Value r) {
      Value to = tiles.at(dq, tiles.plus(tiles.times(k.add(rel, r), padded),
                                         chunk.first * kLanes));
      Value last = k.add(firstQuery, tiles.plus(r, c.rows - 1));
      Value high =
          tiles.atMost(k.sub(tiles.keysSeenBy(last), firstKey), shape.kvTile);
      Matrix a{tiles.at(ds, tiles.times(r, shape.kvTile)), shape.kvTile};
      Matrix b{tiles.at(keys, chunk.first * kLanes), padded};
      tiles.addMatmul(a, b, zero, high, {to, padded}, c);
    });
  }
}

KernelLaunch emitAttentionGrad(ModuleOp module, StringRef name,
                               const AttentionGradShape &shape) {
  return AttentionGradEmitter(module, name, shape).emit();
}

void addAttentionGradKernel(KernelEmitters &emitters) {
  emitters.add<AttentionGradOp>(
      {[](ModuleOp module, rt::KernelOp kernel) -> FailureOr<KernelLaunch> {
         return emitAttentionGrad(module, kernel.getSymName(),
                                  readAttentionGrad(SingleOp(kernel)));
       },
       [](rt::KernelOp kernel) {
         OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
         AttentionGradShape shape = readAttentionGrad(SingleOp(kernel));
         return AttentionGradEmitter(*module, kernel.getSymName(), shape)
             .scratchBytes();
       }});
}

} // namespace kiln::cpu
