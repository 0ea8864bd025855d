//===- AttentionTiles.cpp - Tile operations of attention kernels ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Register tiles are sized for 32 vector registers of 16 floats: 16
// accumulators, a row of `b`, and one broadcast element of `a`. Larger tiles
// would spill registers.
//
//===----------------------------------------------------------------------===//

#include "AttentionTiles.h"

#include "Transpose.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::cpu {

namespace {

constexpr int64_t kMaxChunkVectors = 4;
constexpr int64_t kAccumulators = 16;
constexpr int64_t kCacheLineBits = 512;
/// Prefetch distance in rows: large enough to hide a cache miss, but at most
/// the number of outstanding misses that a core supports.
constexpr int64_t kPrefetchRows = 8;
/// Maximum number of variants of the code for a masked score tile. The variants
/// process different numbers of vectors.
constexpr int64_t kDiagonalSizes = 4;

} // namespace

int64_t ScratchLayout::allocate(int64_t size) {
  int64_t offset = bytes;
  bytes += llvm::alignTo(size, 64);
  return offset;
}

AttentionTiles::AttentionTiles(KernelBuilder &k, const AttentionShape &shape)
    : k(k), shape(shape), fullType(fullPrecision(shape.elementType)),
      padded(llvm::alignTo(shape.headDim, kLanes)) {
  assert(shape.kvTile % kBlock == 0 && "keys per tile come in blocks of 64");
  int64_t vectors = padded / kLanes;
  int64_t count = llvm::divideCeil(vectors, kMaxChunkVectors);
  for (int64_t i : llvm::seq(count)) {
    int64_t first = i * vectors / count;
    chunks.push_back({first, (i + 1) * vectors / count - first});
  }
}

int64_t AttentionTiles::stripRows(int64_t vectors) const {
  // A vector of 16 doubles takes two registers.
  int64_t accumulators = kAccumulators * 32 / fullType.getIntOrFloatBitWidth();
  int64_t rows = llvm::bit_floor(
      static_cast<uint64_t>(std::max<int64_t>(accumulators / vectors, 1)));
  return std::min(rows, kMaxStripRows);
}

Value AttentionTiles::columnMask(int64_t v) {
  int64_t columns = shape.headDim - v * kLanes;
  return columns < kLanes ? k.firstLanes(columns) : Value();
}

Value AttentionTiles::existingRow(Value row) {
  if (shape.length % kRowBlock == 0)
    return row;
  return atMost(row, shape.length - 1);
}

Value AttentionTiles::keysSeenBy(Value row) {
  return shape.causal ? plus(existingRow(row), 1) : k.i64Constant(shape.length);
}

Value AttentionTiles::scratch(int64_t bytes) {
  return k.element(k.scratch(), k.b.getI8Type(), bytes);
}

Value AttentionTiles::roundUp(Value x, int64_t powerOfTwo) {
  return k.bitAnd(plus(x, powerOfTwo - 1), k.i64Constant(-powerOfTwo));
}

Tile AttentionTiles::multiplyAdd(const Matrix &a, const Matrix &b, Value low,
                                 Value high, Tile c) {
  c.values = k.loop(low, high, 1, c.values, [&](Value i, ValueRange carried) {
    Value aColumn = at(a.pointer, times(i, a.columnStride));
    Value bRow = at(b.pointer, times(i, b.rowStride));
    SmallVector<Value> bVectors, next;
    for (int64_t v : llvm::seq(c.vectors))
      bVectors.push_back(loadVector(at(bRow, v * kLanes)));
    for (int64_t r : llvm::seq(c.rows)) {
      Value element =
          k.broadcast(k.load(at(aColumn, r * a.rowStride), fullType));
      for (int64_t v : llvm::seq(c.vectors))
        next.push_back(k.fma(element, bVectors[v], carried[r * c.vectors + v]));
    }
    return next;
  });
  return c;
}

void AttentionTiles::addMatmul(const Matrix &a, const Matrix &b, Value low,
                               Value high, const Matrix &sum, Tile c) {
  auto address = [&](int64_t r, int64_t v) {
    return at(sum.pointer, r * sum.rowStride + v * kLanes);
  };
  for (int64_t r : llvm::seq(c.rows))
    for (int64_t v : llvm::seq(c.vectors))
      c.at(r, v) = loadVector(address(r, v));
  c = multiplyAdd(a, b, low, high, c);
  for (int64_t r : llvm::seq(c.rows))
    for (int64_t v : llvm::seq(c.vectors))
      k.storeVector(c.at(r, v), address(r, v));
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

void AttentionTiles::packRows(Value source, int64_t stride, Value count,
                              Value existing, Value packed, Value factor) {
  Value last = plus(existing, -1);
  k.loop(k.i64Constant(0), count, 1, [&](Value row) {
    Value from = inTensor(source, times(k.min(row, last), stride));
    Value to = at(packed, times(row, padded));
    for (int64_t v : llvm::seq(padded / kLanes)) {
      Value x = loadTensor(inTensor(from, v * kLanes), columnMask(v));
      if (factor)
        x = k.mul(x, factor);
      k.storeVector(x, at(to, v * kLanes));
    }
  });
}

void AttentionTiles::packTransposed(Value source, int64_t stride, Value count,
                                    Value packed) {
  Value last = plus(count, -1);
  k.loop(k.i64Constant(0), count, kLanes, [&](Value firstKey) {
    SmallVector<Value> keys;
    for (int64_t j : llvm::seq(kLanes))
      keys.push_back(
          inTensor(source, times(k.min(plus(firstKey, j), last), stride)));
    auto square = [&](Value column, int64_t columns) {
      Value mask = columns < kLanes ? k.firstLanes(columns) : Value();
      SmallVector<Value> rows;
      for (Value key : keys)
        rows.push_back(loadTensor(inTensor(key, column), mask));
      rows = emitTranspose(k, rows);
      Value to = at(packed, k.add(times(column, shape.kvTile), firstKey));
      for (int64_t r : llvm::seq(columns))
        k.storeVector(rows[r], at(to, r * shape.kvTile));
    };
    int64_t whole = shape.headDim / kLanes * kLanes;
    k.loop(k.i64Constant(0), k.i64Constant(whole), kLanes,
           [&](Value column) { square(column, kLanes); });
    if (whole < shape.headDim)
      square(k.i64Constant(whole), shape.headDim - whole);
  });
}

void AttentionTiles::unpackRows(Value packed, Value count, Value destination,
                                int64_t stride, Value factor) {
  k.loop(k.i64Constant(0), count, 1, [&](Value row) {
    Value from = at(packed, times(row, padded));
    Value to = inTensor(destination, times(row, stride));
    prefetchStores(to, stride);
    for (int64_t v : llvm::seq(padded / kLanes)) {
      Value x = loadVector(at(from, v * kLanes));
      if (factor)
        x = k.mul(x, factor);
      storeTensor(x, inTensor(to, v * kLanes), columnMask(v));
    }
  });
}

void AttentionTiles::prefetchStores(Value row, int64_t stride) {
  int64_t bits = shape.elementType.getIntOrFloatBitWidth();
  for (int64_t i = 0; i < shape.headDim; i += kCacheLineBits / bits)
    LLVM::Prefetch::create(k.b, inTensor(row, kPrefetchRows * stride + i),
                           /*rw=*/1, /*hint=*/3, /*cache=*/1);
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

void AttentionTiles::forSeenKeys(ArrayRef<Value> seen,
                                 function_ref<void(int64_t, bool)> body) {
  int64_t vectors = shape.kvTile / kLanes;
  // Masked code is emitted once for each of these numbers of vectors.
  SmallVector<int64_t> sizes;
  if (shape.causal) {
    int64_t step = llvm::divideCeil(vectors, kDiagonalSizes);
    int64_t most =
        std::min<int64_t>(vectors, llvm::divideCeil(shape.length, kLanes));
    int64_t size = 0;
    while (size < most)
      sizes.push_back(size = std::min(size + step, vectors));
  } else if (int64_t rest = shape.length % shape.kvTile) {
    sizes.push_back(llvm::divideCeil(rest, kLanes));
  }

  auto masked = [&](auto &&self, size_t i) -> void {
    if (i + 1 == sizes.size())
      return body(sizes[i], true);
    k.ifThen(
        k.less(seen.back(), k.i64Constant(sizes[i] * kLanes + 1)),
        [&] { body(sizes[i], true); }, [&] { self(self, i + 1); });
  };
  if (sizes.empty())
    return body(vectors, false);
  if (shape.length < shape.kvTile)
    return masked(masked, 0);
  k.ifThen(
      k.less(seen.front(), k.i64Constant(shape.kvTile)),
      [&] { masked(masked, 0); }, [&] { body(vectors, false); });
}

Value AttentionTiles::keyMask(Value seen, int64_t v) {
  VectorType type = k.vectorOf(k.i32());
  Value key = k.add(k.lanes(k.i32()), k.constantI(v * kLanes, type));
  Value limit = arith::TruncIOp::create(k.b, k.i32(), seen);
  return k.less(key, k.broadcast(limit));
}

//===----------------------------------------------------------------------===//
// Reductions of rows
//===----------------------------------------------------------------------===//

Value AttentionTiles::reduceRows(ArrayRef<Value> rows,
                                 function_ref<Value(Value, Value)> combine) {
  SmallVector<Value> vectors(rows);
  int64_t group = kLanes; // Lanes per row.
  while (vectors.size() > 1) {
    // `low` selects the lower half of every group of `group` lanes of x and y,
    // and `high` selects the upper half.
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < 2 * kLanes; lane += group)
      for (int64_t i : llvm::seq(group / 2)) {
        low.push_back(lane + i);
        high.push_back(lane + group / 2 + i);
      }
    SmallVector<Value> next;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      Value x = vectors[i], y = vectors[i + 1];
      next.push_back(combine(vector::ShuffleOp::create(k.b, x, y, low),
                             vector::ShuffleOp::create(k.b, x, y, high)));
    }
    vectors = next;
    group /= 2;
  }
  for (Value &x = vectors.front(); group > 1; group /= 2) {
    SmallVector<int64_t> partner;
    for (int64_t lane : llvm::seq(kLanes))
      partner.push_back(lane ^ (group / 2));
    x = combine(x, vector::ShuffleOp::create(k.b, x, x, partner));
  }
  return vectors.front();
}

Value AttentionTiles::rowValue(Value reduced, int64_t row, int64_t rows) {
  SmallVector<int64_t> lanes(kLanes, row * (kLanes / rows));
  return vector::ShuffleOp::create(k.b, reduced, reduced, lanes);
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

void AttentionTiles::prepareDropout(Value rng, Value key) {
  randomKey = emitRandomKey(k, k.load(rng, k.i64()), key);
  randomStep = k.load(k.element(rng, k.i64(), 1), k.i64());
  firstSequence = k.load(k.element(rng, k.i64(), 2), k.i64());
  if (shape.dividesHeads)
    firstHead = times(k.load(k.element(rng, k.i64(), 3), k.i64()), shape.heads);
}

void AttentionTiles::forDropped(
    Value sequence, Value head, Value first, Value rows, Value firstKey,
    function_ref<void(Value, Value, ArrayRef<Value>)> body) {
  auto threshold = static_cast<uint32_t>(shape.dropout * 0x1p32);
  Value limit =
      k.constantI(static_cast<int32_t>(threshold), k.vectorOf(k.i32()));
  Value firstCounter =
      times(firstHead ? k.add(firstHead, head) : head, shape.length);
  Value globalSequence = k.add(firstSequence, sequence);
  k.loop(k.i64Constant(0), rows, 1, [&](Value row) {
    Value query = existingRow(k.add(first, row));
    Value seen = k.sub(keysSeenBy(query), firstKey);
    k.loop(
        k.i64Constant(0), atMost(seen, shape.kvTile), kBlock, [&](Value key) {
          Value block =
              k.shiftRight(k.add(firstKey, key), llvm::Log2_64(kBlock));
          std::array<Value, 4> bits =
              emitRandomBlock(k, randomKey, block, k.add(firstCounter, query),
                              globalSequence, randomStep);
          SmallVector<Value> dropped;
          for (Value word : bits)
            dropped.push_back(k.lessUnsigned(word, limit));
          body(row, key, dropped);
        });
  });
}

} // namespace kiln::cpu
