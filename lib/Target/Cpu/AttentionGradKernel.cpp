//===- AttentionGradKernel.cpp - Gradients of attention -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit is one key head of one sequence. For each tile of keys it packs
// scale * k (as it is and transposed) and v^T, and for each query head of the
// group and each block of 64 queries that sees some of these keys:
//
//   p  = exp(q (scale k)^T - lse)      dp = dout v^T
//   ds = p (dp - D)                    D = rowsum(dout * o), computed first
//   dv += p^T dout   dk += ds^T q      in scratch, written once a tile, dk
//   scaled dq += ds (scale k)                 in the result, started by the
//   first tile
//
// So dk and dv add over query heads, then queries, and dq over key tiles,
// always in this order. With few key heads the work is split further: units
// that own a tile of keys and compute its dk and dv, followed by units that own
// a block of queries and compute its dq. The orders, and with them the bits,
// stay the same.
//
// With dropout, p is replaced by its dropped values in dv and dp by its own in
// ds; D needs no change, for o holds the dropped values already.
//
//===----------------------------------------------------------------------===//

#include "AttentionTiles.h"
#include "VectorMath.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

/// Below so many key heads in all, a unit is a tile instead.
constexpr int64_t kEnoughHeads = 4;

class AttentionGradEmitter {
public:
  AttentionGradEmitter(ModuleOp module, StringRef name,
                       const AttentionGradShape &shape);
  KernelLaunch emit();

private:
  /// What a unit computes.
  struct Role {
    bool keys = true, queries = true;
  };

  /// Element (row of the current sequence, column) of argument `arg`.
  Value address(unsigned arg, Value row, int64_t stride, Value column);
  void setKeyHead(Value index);
  void setQueryHead(Value index);
  /// D of queries [first, end) of the current query head, at `to`.
  void computeRowSums(Value first, Value end, Value to);
  void packKeys(Value firstKey, Role role);
  void keyTile(Value firstKey, Role role,
               llvm::function_ref<void()> forEachBlock);
  /// `rowSums`: D of query 0.
  void block(Value firstQuery, Value firstKey, Value rowSums, Role role);
  void strip(Value query, Value blockRow, Value firstKey, Value rowSums);
  void dropBlock(Value firstQuery, Value rows, Value firstKey, Value rowSums);
  void addTransposed(Value weights, Value rows, Value sum, Value firstQuery,
                     Value firstKey);
  void addToQueries(Value firstQuery, Value firstKey, Value rows);
  void wholeHead(Value index);
  void oneKeyTile(Value index);
  void oneQueryBlock(Value index);

  const AttentionGradShape &shape;
  Type type;
  bool dropout;
  KernelBuilder k;
  AttentionTiles tiles;
  int64_t group; ///< query heads of a key head
  int64_t padded, keyVectors, rowsPerStrip;
  unsigned dqArg;
  ScratchLayout layout;
  Value zero, scale;
  // Scratch.
  Value keys, keysTransposed, valuesTransposed, queries, gradients, p, ds, dk,
      dv, rowSums;
  // Of the current unit.
  Value sequence, keyHead, keyColumn, head, headColumn;
};

} // namespace

AttentionGradEmitter::AttentionGradEmitter(ModuleOp module, StringRef name,
                                           const AttentionGradShape &shape)
    : shape(shape), type(shape.elementType), dropout(shape.dropout > 0),
      k(module, name, /*numArgs=*/dropout ? 10 : 9, /*numImmediates=*/2),
      tiles(k, shape), group(shape.heads / shape.kvHeads),
      padded(tiles.paddedDim()), keyVectors(shape.kvTile / kLanes),
      rowsPerStrip(tiles.stripRows(keyVectors)), dqArg(dropout ? 7 : 6) {
  zero = k.i64Constant(0);
  scale = k.bitcast(k.immediate(1), k.f64());
  if (type != k.f64())
    scale = arith::TruncFOp::create(k.b, type, scale);
  scale = k.broadcast(scale);
  if (dropout)
    tiles.prepareDropout(k.arg(6), k.immediate(0));

  auto allocate = [&](int64_t elements) {
    return tiles.scratch(
        layout.allocate(elements * type.getIntOrFloatBitWidth() / 8));
  };
  keys = allocate(shape.kvTile * padded);
  keysTransposed = allocate(shape.kvTile * padded);
  valuesTransposed = allocate(shape.kvTile * padded);
  queries = allocate(kRowBlock * padded);
  gradients = allocate(kRowBlock * padded);
  p = allocate(kRowBlock * shape.kvTile);
  ds = allocate(kRowBlock * shape.kvTile);
  dk = allocate(shape.kvTile * padded);
  dv = allocate(shape.kvTile * padded);
  rowSums = allocate(group * shape.length);
}

KernelLaunch AttentionGradEmitter::emit() {
  int64_t keyHeads = shape.sequences * shape.kvHeads;
  int64_t keyTiles = llvm::divideCeil(shape.length, shape.kvTile);
  int64_t units = keyHeads;
  if (keyHeads >= kEnoughHeads || shape.length <= kRowBlock) {
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
// Units
//===----------------------------------------------------------------------===//

void AttentionGradEmitter::setKeyHead(Value index) {
  Value heads = k.i64Constant(shape.kvHeads);
  sequence = k.divUnsigned(index, heads);
  keyHead = k.remUnsigned(index, heads);
  keyColumn = tiles.times(keyHead, shape.headDim);
}

void AttentionGradEmitter::setQueryHead(Value index) {
  head = index;
  headColumn = tiles.times(head, shape.headDim);
}

Value AttentionGradEmitter::address(unsigned arg, Value row, int64_t stride,
                                    Value column) {
  Value globalRow = k.add(tiles.times(sequence, shape.length), row);
  return tiles.at(k.arg(arg), k.add(tiles.times(globalRow, stride), column));
}

void AttentionGradEmitter::wholeHead(Value index) {
  setKeyHead(index);
  Value length = k.i64Constant(shape.length);
  Value firstHead = tiles.times(keyHead, group);
  Value groupSize = k.i64Constant(group);
  auto sumsOf = [&](Value member) {
    return tiles.at(rowSums, tiles.times(member, shape.length));
  };
  k.loop(zero, groupSize, 1, [&](Value member) {
    setQueryHead(k.add(firstHead, member));
    computeRowSums(zero, length, sumsOf(member));
  });
  k.loop(zero, length, shape.kvTile, [&](Value firstKey) {
    keyTile(firstKey, Role{}, [&] {
      k.loop(zero, groupSize, 1, [&](Value member) {
        setQueryHead(k.add(firstHead, member));
        k.loop(shape.causal ? firstKey : zero, length, kRowBlock,
               [&](Value firstQuery) {
                 block(firstQuery, firstKey, sumsOf(member), Role{});
               });
      });
    });
  });
}

void AttentionGradEmitter::oneKeyTile(Value index) {
  Role role{/*keys=*/true, /*queries=*/false};
  Value keyTiles = k.i64Constant(llvm::divideCeil(shape.length, shape.kvTile));
  setKeyHead(k.divUnsigned(index, keyTiles));
  Value firstKey = tiles.times(k.remUnsigned(index, keyTiles), shape.kvTile);
  Value length = k.i64Constant(shape.length);
  keyTile(firstKey, role, [&] {
    k.loop(zero, k.i64Constant(group), 1, [&](Value member) {
      setQueryHead(k.add(tiles.times(keyHead, group), member));
      Value low = shape.causal ? firstKey : zero;
      computeRowSums(low, length, tiles.at(rowSums, low));
      k.loop(low, length, kRowBlock, [&](Value firstQuery) {
        block(firstQuery, firstKey, rowSums, role);
      });
    });
  });
}

void AttentionGradEmitter::oneQueryBlock(Value index) {
  Role role{/*keys=*/false, /*queries=*/true};
  Value blocks = k.i64Constant(llvm::divideCeil(shape.length, kRowBlock));
  Value heads = k.i64Constant(shape.heads);
  Value firstQuery = tiles.times(k.remUnsigned(index, blocks), kRowBlock);
  Value sequenceHead = k.divUnsigned(index, blocks);
  Value queryHead = k.remUnsigned(sequenceHead, heads);
  setKeyHead(
      k.add(tiles.times(k.divUnsigned(sequenceHead, heads), shape.kvHeads),
            k.divUnsigned(queryHead, k.i64Constant(group))));
  setQueryHead(queryHead);
  Value end = tiles.atMost(tiles.plus(firstQuery, kRowBlock), shape.length);
  computeRowSums(firstQuery, end, tiles.at(rowSums, firstQuery));
  k.loop(zero, shape.causal ? end : k.i64Constant(shape.length), shape.kvTile,
         [&](Value firstKey) {
           packKeys(firstKey, role);
           block(firstQuery, firstKey, rowSums, role);
         });
}

//===----------------------------------------------------------------------===//
// Parts of a unit
//===----------------------------------------------------------------------===//

void AttentionGradEmitter::computeRowSums(Value first, Value end, Value to) {
  Value o = address(3, first, shape.oStride, headColumn);
  Value dout = address(5, first, shape.doutStride, headColumn);
  k.loop(zero, k.sub(end, first), 1, [&](Value row) {
    Value oRow = tiles.at(o, tiles.times(row, shape.oStride));
    Value doutRow = tiles.at(dout, tiles.times(row, shape.doutStride));
    Value sum = k.constantF(0, k.vectorOf(type));
    for (int64_t v : llvm::seq(padded / kLanes)) {
      Value mask = tiles.columnMask(v);
      sum = k.fma(tiles.loadVector(tiles.at(oRow, v * kLanes), mask),
                  tiles.loadVector(tiles.at(doutRow, v * kLanes), mask), sum);
    }
    k.store(k.sumLanes(sum), tiles.at(to, row));
  });
}

void AttentionGradEmitter::packKeys(Value firstKey, Role role) {
  Value count =
      tiles.atMost(k.sub(k.i64Constant(shape.length), firstKey), shape.kvTile);
  Value source = address(1, firstKey, shape.kStride, keyColumn);
  tiles.packTransposed(source, shape.kStride, count, keysTransposed, scale);
  tiles.packTransposed(address(2, firstKey, shape.vStride, keyColumn),
                       shape.vStride, count, valuesTransposed);
  if (role.queries)
    tiles.packRows(source, shape.kStride, count, count, keys, scale);
}

void AttentionGradEmitter::keyTile(Value firstKey, Role role,
                                   function_ref<void()> forEachBlock) {
  packKeys(firstKey, role);
  Value zeros = k.constantF(0, k.vectorOf(type));
  k.loop(zero, k.i64Constant(shape.kvTile * padded), kLanes, [&](Value i) {
    k.storeVector(zeros, tiles.at(dk, i));
    k.storeVector(zeros, tiles.at(dv, i));
  });
  forEachBlock();
  Value count =
      tiles.atMost(k.sub(k.i64Constant(shape.length), firstKey), shape.kvTile);
  tiles.unpackRows(dk, count,
                   address(dqArg + 1, firstKey, shape.dkStride, keyColumn),
                   shape.dkStride, scale);
  tiles.unpackRows(dv, count,
                   address(dqArg + 2, firstKey, shape.dvStride, keyColumn),
                   shape.dvStride);
}

void AttentionGradEmitter::block(Value firstQuery, Value firstKey,
                                 Value rowSums, Role role) {
  Value rows =
      tiles.atMost(k.sub(k.i64Constant(shape.length), firstQuery), kRowBlock);
  Value paddedRows = tiles.roundUp(rows, kMaxStripRows);
  tiles.packRows(address(0, firstQuery, shape.qStride, headColumn),
                 shape.qStride, paddedRows, rows, queries);
  tiles.packRows(address(5, firstQuery, shape.doutStride, headColumn),
                 shape.doutStride, paddedRows, rows, gradients);
  k.loop(zero, paddedRows, rowsPerStrip,
         [&](Value r) { strip(k.add(firstQuery, r), r, firstKey, rowSums); });
  if (dropout)
    dropBlock(firstQuery, paddedRows, firstKey, rowSums);
  if (role.keys) {
    addTransposed(p, gradients, dv, firstQuery, firstKey);
    addTransposed(ds, queries, dk, firstQuery, firstKey);
  }
  if (role.queries)
    addToQueries(firstQuery, firstKey, rows);
}

void AttentionGradEmitter::strip(Value query, Value blockRow, Value firstKey,
                                 Value rowSums) {
  Value lse = tiles.at(
      k.arg(4), tiles.times(k.add(tiles.times(sequence, shape.heads), head),
                            shape.length));
  SmallVector<Value> seen, rowLse, rowSum;
  for (int64_t r : llvm::seq(rowsPerStrip)) {
    Value row = tiles.existingRow(tiles.plus(query, r));
    seen.push_back(k.sub(tiles.keysSeenBy(row), firstKey));
    rowLse.push_back(k.broadcast(k.load(tiles.at(lse, row), type)));
    rowSum.push_back(k.broadcast(k.load(tiles.at(rowSums, row), type)));
  }
  Value stripRow = tiles.times(blockRow, padded);
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

void AttentionGradEmitter::dropBlock(Value firstQuery, Value rows,
                                     Value firstKey, Value rowSums) {
  VectorType vector = k.vectorOf(type);
  Value zeros = k.constantF(0, vector);
  Value factor = k.constantF(tiles.keptFactor(), vector);
  tiles.forDropped(
      sequence, head, firstQuery, rows, firstKey,
      [&](Value row, Value key, ArrayRef<Value> dropped) {
        Value query = tiles.existingRow(k.add(firstQuery, row));
        Value sum = k.broadcast(k.load(tiles.at(rowSums, query), type));
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

/// sum += weights^T rows, for the keys that the block sees and the queries that
/// see them.
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
      for (int64_t r : llvm::seq(c.rows))
        for (int64_t v : llvm::seq(c.vectors))
          c.at(r, v) = tiles.loadVector(tiles.at(to, r * padded + v * kLanes));
      Matrix a{tiles.at(weights, key), /*rowStride=*/1, shape.kvTile};
      Matrix b{tiles.at(rows, chunk.first * kLanes), padded};
      Tile result = tiles.multiplyAdd(a, b, low, count, c);
      for (int64_t r : llvm::seq(c.rows))
        for (int64_t v : llvm::seq(c.vectors))
          k.storeVector(result.at(r, v), tiles.at(to, r * padded + v * kLanes));
    });
  }
}

/// dq += ds (scale k), for the keys that each strip of queries sees. Strips
/// without an existing query are left out: they would add to the last one
/// again.
void AttentionGradEmitter::addToQueries(Value firstQuery, Value firstKey,
                                        Value rows) {
  Value zeros = k.constantF(0, k.vectorOf(type));
  Value first = k.equal(firstKey, zero);
  for (ColumnChunk chunk : tiles.columnChunks()) {
    Tile c(tiles.stripRows(chunk.vectors), chunk.vectors);
    k.loop(zero, rows, c.rows, [&](Value r) {
      Value query = k.add(firstQuery, r);
      SmallVector<Value> to;
      for (int64_t i : llvm::seq(c.rows)) {
        Value row = tiles.existingRow(tiles.plus(query, i));
        to.push_back(address(dqArg, row, shape.dqStride,
                             tiles.plus(headColumn, chunk.first * kLanes)));
        for (int64_t v : llvm::seq(c.vectors))
          c.at(i, v) =
              k.select(first, zeros,
                       tiles.loadVector(tiles.at(to[i], v * kLanes),
                                        tiles.columnMask(chunk.first + v)));
      }
      Value seen = tiles.keysSeenBy(tiles.plus(query, c.rows - 1));
      Value high = tiles.atMost(k.sub(seen, firstKey), shape.kvTile);
      Matrix a{tiles.at(ds, tiles.times(r, shape.kvTile)), shape.kvTile};
      Matrix b{tiles.at(keys, chunk.first * kLanes), padded};
      Tile result = tiles.multiplyAdd(a, b, zero, high, c);
      for (int64_t i : llvm::seq(c.rows))
        for (int64_t v : llvm::seq(c.vectors))
          k.storeVector(result.at(i, v), tiles.at(to[i], v * kLanes),
                        tiles.columnMask(chunk.first + v));
    });
  }
}

KernelLaunch emitAttentionGrad(ModuleOp module, StringRef name,
                               const AttentionGradShape &shape) {
  return AttentionGradEmitter(module, name, shape).emit();
}

} // namespace kiln::cpu
