//===- AttentionTiles.cpp - Tile operations of attention kernels ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTiles.h"
#include "VectorizedAccess.h"

#include "kiln/Target/Common/VectorMath.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

namespace {

constexpr int64_t kMaxQueries = 64;
/// Elements per vector in shared memory, and padding elements per staged row.
/// Because of the padding, the vectors of adjacent rows at the same column are
/// in different banks.
constexpr int64_t kVector = 4;
/// Maximum sums per thread. A larger number would leave too few registers for
/// other values.
constexpr int64_t kMaxSums = 64;

} // namespace

int64_t AttentionTiles::Sizes::chunkElements() const {
  int64_t both = (queries + keys) * (dotColumns + kVector);
  return std::max(both, std::max(queries, keys) * columns);
}

AttentionTiles::Sizes AttentionTiles::chooseSizes(const AttentionShape &shape,
                                                  int64_t keys) {
  int64_t bytes = elementBytes(fullPrecision(shape.elementType));
  // Returns the smallest power of two that is at least `wanted`, limited to the
  // range from kSide to `most`.
  auto upTo = [](int64_t wanted, int64_t most) {
    return std::clamp<int64_t>(llvm::PowerOf2Ceil(wanted), kSide, most);
  };
  int64_t mostColumns = upTo(shape.headDim, kVector * kSide);
  int64_t mostDotColumns = upTo(shape.headDim, 2 * kSide);
  for (int64_t queries = upTo(shape.length, kMaxQueries); queries >= kSide;
       queries /= 2) {
    if (queries > kSide &&
        queries * llvm::alignTo(shape.headDim, mostColumns) / kThreads >
            kMaxSums)
      continue;
    for (int64_t columns = mostColumns; columns >= kSide; columns /= 2)
      for (int64_t dotColumns = mostDotColumns; dotColumns >= kSide;
           dotColumns /= 2) {
        Sizes sizes = {queries, keys, dotColumns, columns};
        if ((sizes.chunkElements() + sizes.tileElements()) * bytes <=
            kSharedBytes)
          return sizes;
      }
  }
  return Sizes();
}

bool checkAttentionType(GpuBuilder &k, const AttentionShape &shape) {
  if (fullPrecision(shape.elementType).isF32())
    return true;
  k.callLibrary("exp", Value());
  return false;
}

AttentionTiles::AttentionTiles(GpuBuilder &k, const AttentionShape &shape,
                               const Sizes &sizes, Alignments alignments)
    : k(k), shape(shape), sizes(sizes), alignments(alignments) {
  tx = k.bitAnd(k.thread(), k.i64Constant(kSide - 1));
  ty = k.shiftRight(k.thread(), llvm::Log2_64(kSide));
  chunks = k.shared(type(), sizes.chunkElements());
  tile = k.shared(type(), sizes.tileElements());
}

void AttentionTiles::setHead(Value newSequence, Value newHead) {
  sequence = newSequence;
  head = newHead;
}

AttentionTiles::HeadRows AttentionTiles::rows(unsigned arg, int64_t stride,
                                              Value ofHead) const {
  Value row = times(sequence, shape.length);
  Value offset = k.add(times(row, stride), times(ofHead, shape.headDim));
  int64_t width = accessWidth(storedType(), alignments[arg],
                              {stride, shape.headDim}, kVector);
  return {inRows(k.arg(arg), offset), stride, width};
}

Value AttentionTiles::query(Value first, int64_t i) const {
  return k.add(first, plus(times(ty, rowsPerThread()), i));
}

Value AttentionTiles::existingQuery(Value first, int64_t i) const {
  Value row = query(first, i);
  return shape.length % sizes.queries ? atMost(row, shape.length - 1) : row;
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

void AttentionTiles::stage(const HeadRows &from, Value firstRow, int64_t count,
                           Value firstColumn, int64_t columns, Value to,
                           int64_t pitch, Value factor) {
  int64_t perRow = columns / from.width, pieces = count * perRow;
  // A thread copies every kThreads-th of the vectors. kThreads vectors are a
  // whole number of rows, so the address of each vector is the address of the
  // thread's first vector plus a constant.
  Value firstPiece = k.thread(), perRowValue = k.i64Constant(perRow);
  Value row = k.divUnsigned(firstPiece, perRowValue);
  Value column = times(k.remUnsigned(firstPiece, perRowValue), from.width);
  Value sourceColumn = k.add(firstColumn, column), exists;
  if (shape.headDim % columns) {
    exists = k.less(sourceColumn, k.i64Constant(shape.headDim));
    sourceColumn = atMost(sourceColumn, shape.headDim - from.width);
  }
  Value sourceRow = k.add(firstRow, row);
  Value source = inRows(from.first, sourceColumn);
  Value place = at(to, k.add(times(row, pitch), column));
  bool isWhole = shape.length % count == 0;
  if (isWhole)
    source = inRows(source, times(sourceRow, from.stride));

  SmallVector<Value> loaded, places;
  auto load = [&](int64_t first) {
    int64_t rows = first / perRow;
    Value address;
    if (isWhole) {
      address = inRows(source, rows * from.stride);
    } else {
      Value existing = atMost(plus(sourceRow, rows), shape.length - 1);
      address = inRows(source, times(existing, from.stride));
    }
    Value x = k.widen(loadWide(k, address, storedType(), from.width));
    if (exists)
      x = k.select(exists, x, k.constantF(0, x.getType()));
    loaded.push_back(x);
    places.push_back(at(place, rows * pitch));
  };
  auto store = [&] {
    for (auto [x, place] : llvm::zip_equal(loaded, places)) {
      if (factor)
        x = k.mul(x, wideOf(k, SmallVector<Value>(from.width, factor)));
      storeWide(k, x, place);
    }
  };
  if (pieces < kThreads) {
    k.ifThen(k.less(k.thread(), k.i64Constant(pieces)), [&] {
      load(0);
      store();
    });
    return;
  }
  for (int64_t first = 0; first < pieces; first += kThreads)
    load(first);
  store();
}

AttentionTiles::Values AttentionTiles::products(const HeadRows &a, Value firstA,
                                                Value factor, const HeadRows &b,
                                                Value firstB) {
  int64_t rows = rowsPerThread(), keys = keysPerThread();
  int64_t columns = sizes.dotColumns, pitch = columns + kVector;
  Value other = at(chunks, sizes.queries * pitch);
  Value aRow = at(chunks, times(ty, rows * pitch));
  Value bRow = at(other, times(tx, pitch));
  Values sums(rows * keys, k.constantF(0, type()));
  auto addChunk = [&](Value i, ValueRange carried) {
    Values a, b, next(carried);
    for (int64_t r : llvm::seq(rows))
      a.push_back(loadWide(k, at(at(aRow, i), r * pitch), type(), kVector));
    for (int64_t j : llvm::seq(keys))
      b.push_back(
          loadWide(k, at(at(bRow, i), j * kSide * pitch), type(), kVector));
    for (int64_t c : llvm::seq(kVector))
      for (int64_t r : llvm::seq(rows))
        for (int64_t j : llvm::seq(keys)) {
          Value &sum = next[r * keys + j];
          sum = k.fma(k.lane(a[r], c), k.lane(b[j], c), sum);
        }
    return next;
  };
  return k.loop(
      k.i64Constant(0), k.i64Constant(shape.headDim), columns, sums,
      [&](Value column, ValueRange carried) {
        k.barrier();
        stage(a, firstA, sizes.queries, column, columns, chunks, pitch, factor);
        stage(b, firstB, sizes.keys, column, columns, other, pitch, {});
        k.barrier();
        return k.loop(k.i64Constant(0), k.i64Constant(columns), kVector,
                      carried, addChunk);
      });
}

AttentionTiles::Values AttentionTiles::rowSums(const HeadRows &x,
                                               const HeadRows &y, Value first) {
  Values xRows, yRows, zeros;
  for (int64_t i : llvm::seq(rowsPerThread())) {
    Value row = existingQuery(first, i);
    xRows.push_back(inRows(x.first, times(row, x.stride)));
    yRows.push_back(inRows(y.first, times(row, y.stride)));
    zeros.push_back(k.constantF(0, type()));
  }
  auto load = [&](Value row, Value column) {
    return k.widen(k.load(inRows(row, column), storedType()));
  };
  Values sums = k.loop(
      tx, k.i64Constant(shape.headDim), kSide, zeros,
      [&](Value column, ValueRange carried) {
        Values next;
        for (auto [xRow, yRow, sum] : llvm::zip_equal(xRows, yRows, carried))
          next.push_back(k.fma(load(xRow, column), load(yRow, column), sum));
        return next;
      });
  for (Value &sum : sums)
    for (int64_t distance = kSide / 2; distance >= 1; distance /= 2)
      sum = k.add(sum, k.shuffleXor(sum, distance));
  return sums;
}

AttentionTiles::Values
AttentionTiles::reduce(const Values &scores,
                       function_ref<Value(Value, Value)> combine) {
  Values results;
  for (int64_t i : llvm::seq(rowsPerThread())) {
    auto row = ArrayRef(scores).slice(i * keysPerThread(), keysPerThread());
    Value x = row.front();
    for (Value y : row.drop_front())
      x = combine(x, y);
    for (int64_t distance = kSide / 2; distance >= 1; distance /= 2)
      x = combine(x, k.shuffleXor(x, distance));
    results.push_back(x);
  }
  return results;
}

AttentionTiles::Values AttentionTiles::seen(Value firstQuery,
                                            Value firstKey) const {
  if (!shape.causal && shape.length % sizes.keys == 0 &&
      shape.length % sizes.queries == 0)
    return {};
  Values result;
  Value length = k.i64Constant(shape.length), none = k.i64Constant(0);
  for (int64_t i : llvm::seq(rowsPerThread())) {
    Value row = query(firstQuery, i);
    Value keys = shape.causal ? plus(row, 1) : length;
    if (shape.length % sizes.queries)
      keys = k.select(k.less(row, length), keys, none);
    Value ahead = k.sub(k.sub(keys, firstKey), tx);
    for (int64_t j : llvm::seq(keysPerThread()))
      result.push_back(k.less(k.i64Constant(j * kSide), ahead));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

void AttentionTiles::prepareDropout(Value rng, Value key) {
  auto word = [&](int64_t i) {
    return k.load(k.element(rng, k.i64(), i), k.i64());
  };
  randomKey = emitRandomKey(k, word(0), key);
  randomStep = word(1);
  firstSequence = word(2);
  if (shape.dividesHeads)
    firstHead = times(word(3), shape.heads);
}

AttentionTiles::Values AttentionTiles::dropped(Value firstQuery,
                                               Value firstKey) {
  auto threshold = static_cast<uint32_t>(shape.dropout * 0x1p32);
  Value limit = k.constantI(static_cast<int32_t>(threshold), k.i32());
  Value firstCounter =
      times(firstHead ? k.add(firstHead, head) : head, shape.length);
  Value globalSequence = k.add(firstSequence, sequence);
  constexpr int64_t words = kRandomKeys / kSide;
  // Key 64*b + 16*w + tx, with w < 4, uses word w of the Philox output for
  // counter 16*b + tx.
  Value block = k.shiftRight(firstKey, llvm::Log2_64(words));
  Values result;
  for (int64_t i : llvm::seq(rowsPerThread())) {
    Value counter = k.add(firstCounter, existingQuery(firstQuery, i));
    for (int64_t j = 0; j < keysPerThread(); j += words) {
      Value column = k.add(plus(block, j / words * kSide), tx);
      for (Value bits : emitPhilox(
               k, randomKey, {column, counter, globalSequence, randomStep}))
        result.push_back(k.lessUnsigned(bits, limit));
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Matmuls with the tile
//===----------------------------------------------------------------------===//

void AttentionTiles::setTile(const Values &scores) {
  k.barrier();
  Value mine =
      at(tile, k.add(times(ty, rowsPerThread() * sizes.tilePitch()), tx));
  for (int64_t i : llvm::seq(rowsPerThread()))
    for (int64_t j : llvm::seq(keysPerThread()))
      k.store(scores[i * keysPerThread() + j],
              at(mine, i * sizes.tilePitch() + j * kSide));
}

int64_t AttentionTiles::chunkCount() const {
  return llvm::divideCeil(shape.headDim, sizes.columns);
}

AttentionTiles::Values AttentionTiles::noSums(int64_t rows) const {
  return Values(chunkCount() * rows * columnsPerThread(),
                k.constantF(0, type()));
}

AttentionTiles::Values AttentionTiles::addChunk(bool transposed, int64_t count,
                                                int64_t rows, Values sums) {
  int64_t width = columnsPerThread(), pitch = sizes.tilePitch();
  // `step` is the number of terms per iteration, and `tileWidth` the number of
  // adjacent elements of a tile row that a thread loads at a time.
  int64_t step = transposed ? 2 : kVector;
  int64_t tileWidth = transposed ? std::min(rows, kVector) : kVector;
  Value mine = at(tile, times(ty, transposed ? rows : rows * pitch));
  Value b = at(chunks, times(tx, width));
  return k.loop(
      k.i64Constant(0), k.i64Constant(count), step, sums,
      [&](Value i, ValueRange carried) {
        // weights[n][r] is the weight of term n in the sum of row r.
        SmallVector<Values> weights(step, Values(rows));
        Value from = at(mine, transposed ? times(i, pitch) : i);
        if (transposed) {
          for (int64_t n : llvm::seq(step))
            for (int64_t r = 0; r < rows; r += tileWidth) {
              Value x = loadWide(k, at(from, n * pitch + r), type(), tileWidth);
              for (int64_t j : llvm::seq(tileWidth))
                weights[n][r + j] = wideElement(k, x, j);
            }
        } else {
          for (int64_t r : llvm::seq(rows)) {
            Value x = loadWide(k, at(from, r * pitch), type(), tileWidth);
            for (int64_t n : llvm::seq(step))
              weights[n][r] = wideElement(k, x, n);
          }
        }
        Values next(carried);
        Value bRow = at(b, times(i, sizes.columns));
        for (int64_t n : llvm::seq(step)) {
          Value x = loadWide(k, at(bRow, n * sizes.columns), type(), width);
          for (int64_t r : llvm::seq(rows))
            for (int64_t c : llvm::seq(width)) {
              Value &sum = next[r * width + c];
              sum = k.fma(weights[n][r], wideElement(k, x, c), sum);
            }
        }
        return next;
      });
}

AttentionTiles::Values AttentionTiles::add(bool transposed, const HeadRows &b,
                                           Value firstB, Value factor,
                                           int64_t rows, Values sums) {
  int64_t count = transposed ? sizes.queries : sizes.keys;
  int64_t perChunk = rows * columnsPerThread();
  Values result;
  for (int64_t chunk : llvm::seq(chunkCount())) {
    // The first chunk needs no barrier: no thread has read the chunk buffer
    // since the barrier in setTile.
    if (chunk > 0)
      k.barrier();
    stage(b, firstB, count, k.i64Constant(chunk * sizes.columns), sizes.columns,
          chunks, sizes.columns, factor);
    k.barrier();
    Values mine(ArrayRef(sums).slice(chunk * perChunk, perChunk));
    llvm::append_range(result, addChunk(transposed, count, rows, mine));
  }
  return result;
}

AttentionTiles::Values AttentionTiles::addMatmul(const HeadRows &b,
                                                 Value firstB, Values sums) {
  return add(/*transposed=*/false, b, firstB, {}, rowsPerThread(), sums);
}

AttentionTiles::Values AttentionTiles::addTransposed(const HeadRows &b,
                                                     Value firstB, Value factor,
                                                     Values sums) {
  return add(/*transposed=*/true, b, firstB, factor, keysPerThread(), sums);
}

void AttentionTiles::storeSums(const Values &sums, int64_t rows,
                               const HeadRows &to, Value first) {
  int64_t columns = columnsPerThread(), width = std::min(columns, to.width);
  for (int64_t r : llvm::seq(rows)) {
    Value row = k.add(first, plus(times(ty, rows), r));
    Value address = inRows(to.first, times(row, to.stride));
    k.ifThen(k.less(row, k.i64Constant(shape.length)), [&] {
      for (int64_t chunk : llvm::seq(chunkCount()))
        for (int64_t c = 0; c < columns; c += width) {
          Value column = plus(times(tx, columns), chunk * sizes.columns + c);
          auto mine =
              ArrayRef(sums).slice((chunk * rows + r) * columns + c, width);
          auto store = [&] {
            storeWide(k, k.roundTo(wideOf(k, mine), storedType()),
                      inRows(address, column));
          };
          if ((chunk + 1) * sizes.columns <= shape.headDim)
            store();
          else
            k.ifThen(k.less(column, k.i64Constant(shape.headDim)), store);
        }
    });
  }
}

} // namespace kiln::gpu
