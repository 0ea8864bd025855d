//===- AttentionTiles.h - What attention kernels are made of ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All seven matrix products of attention run through one register tile:
//
//   c[rows x 16*vectors] += sum over i of a(r, i) * b(i, 16*v ...)
//
// with elements of `a` broadcast from memory at any strides (so a product with
// P^T reads P as it lies) and rows of `b` contiguous. Operands are packed into
// scratch first: rows of a tensor lie far apart, often a multiple of a few
// cache sets, and each tile is read many times. Scratch is in full precision:
// packing widens bf16, and only what is unpacked is rounded to it.
//
// Scores are computed for kRowBlock queries by `keyTile` keys at a time. What
// does not exist is handled without branches in the products:
//  - queries past the end of the sequence repeat the last one. Nothing of them
//    is stored, and sums over queries leave them out;
//  - keys that a query does not see are masked in the score tile. Vectors of 16
//    keys that no query of a strip sees are not computed at all, and sums over
//    keys end at the last key that some query of the strip sees;
//  - columns past the head dimension are packed as zeros.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_CPU_ATTENTIONTILES_H
#define KILN_LIB_TARGET_CPU_ATTENTIONTILES_H

#include "KernelBuilder.h"
#include "kiln/Target/Cpu/Kernels.h"

namespace kiln::cpu {

/// Queries per block.
constexpr int64_t kRowBlock = 64;
/// Strips have at most so many rows, and a power of two of them.
constexpr int64_t kMaxStripRows = 8;

/// A matrix in memory: element (r, c) is at pointer + r*rowStride +
/// c*columnStride, strides in elements.
struct Matrix {
  mlir::Value pointer;
  int64_t rowStride = 0;
  int64_t columnStride = 1;
};

/// A register tile: rows x vectors.
struct Tile {
  int64_t rows = 0, vectors = 0;
  llvm::SmallVector<mlir::Value, 16> values;

  Tile(int64_t rows, int64_t vectors, mlir::Value value = {})
      : rows(rows), vectors(vectors), values(rows * vectors, value) {}
  mlir::Value &at(int64_t row, int64_t vector) {
    return values[row * vectors + vector];
  }
};

/// Consecutive vectors of the head dimension that one register tile covers.
struct ColumnChunk {
  int64_t first, vectors;
};

/// Hands out parts of the scratch of a kernel, in bytes.
class ScratchLayout {
public:
  /// Returns the offset of `bytes` bytes.
  int64_t allocate(int64_t bytes);
  int64_t size() const { return bytes; }

private:
  int64_t bytes = 0;
};

/// The tile code of one kernel.
class AttentionTiles {
public:
  using Value = mlir::Value;

  AttentionTiles(KernelBuilder &k, const AttentionShape &shape);

  /// Rows of a strip whose tile has `vectors` vectors a row: as many as the
  /// registers hold.
  int64_t stripRows(int64_t vectors) const;
  /// The head dimension in chunks of nearly equal size.
  llvm::ArrayRef<ColumnChunk> columnChunks() const { return chunks; }
  /// Of elements in scratch, and of all arithmetic.
  mlir::Type type() const { return fullType; }
  /// The head dimension rounded up to whole vectors: what packed rows have.
  int64_t paddedDim() const { return padded; }
  /// The lanes of vector `v` of a row of the head dimension; null: all.
  Value columnMask(int64_t v);

  /// Number of keys query `row` sees, rows past the end being the last one.
  Value keysSeenBy(Value row);
  /// min(row, length - 1).
  Value existingRow(Value row);

  /// c + a*b over [low, high).
  Tile multiplyAdd(const Matrix &a, const Matrix &b, Value low, Value high,
                   Tile c);

  /// The same on a matrix of c's shape in memory.
  void addMatmul(const Matrix &a, const Matrix &b, Value low, Value high,
                 const Matrix &sum, Tile c);

  /// Copies rows [0, count) of the head to packed rows; rows from `existing` on
  /// repeat the one before.
  void packRows(Value source, int64_t stride, Value count, Value existing,
                Value packed, Value factor = {});
  /// packed(c, j) = source(j, c) for keys j in [0, count), a matrix of
  /// keyTile columns; the keys are rounded up to whole vectors.
  void packTransposed(Value source, int64_t stride, Value count, Value packed);
  /// Copies packed rows [0, count) to a tensor.
  void unpackRows(Value packed, Value count, Value destination, int64_t stride,
                  Value factor = {});

  /// Asks for the row of a result that will be written a few rows after the one
  /// at `row`. Stores wait for their line one after the other, and rows of a
  /// tensor are too short for the processor to foresee them. Past the end of
  /// the tensor this does nothing.
  void prefetchStores(Value row, int64_t stride);

  /// Emits `body` for the score tile of a strip whose queries see
  /// [seen[0], ..., seen.back()] keys of the tile (ascending): once without a
  /// mask, and once for every number of vectors that a diagonal may need.
  void forSeenKeys(llvm::ArrayRef<Value> seen,
                   llvm::function_ref<void(int64_t vectors, bool masked)> body);
  /// Which lanes of vector `v` are among the first `seen` keys of the tile.
  Value keyMask(Value seen, int64_t v);

  /// Combines the lanes of each row (a power of two of them): lane l of the
  /// result belongs to row l / (16 / rows). All lanes of a row are equal.
  Value reduceRows(llvm::ArrayRef<Value> rows,
                   llvm::function_ref<Value(Value, Value)> combine);
  /// The value of one row of such a result in all lanes.
  Value rowValue(Value reduced, int64_t row, int64_t rows);

  /// Reads the key of the random numbers; once, before they are needed.
  void prepareDropout(Value rng, Value key);
  /// For every query in [first, first + rows) and every 64 keys from `firstKey`
  /// of which it sees some: calls `body` with the query (from 0), the keys'
  /// offset in the tile, and masks of what is dropped, one for each vector.
  void forDropped(Value sequence, Value head, Value first, Value rows,
                  Value firstKey,
                  llvm::function_ref<void(Value row, Value key,
                                          llvm::ArrayRef<Value> dropped)>
                      body);
  /// What kept probabilities are multiplied with.
  double keptFactor() const { return 1 / (1 - shape.dropout); }

  /// `bytes` from the start of the scratch.
  Value scratch(int64_t bytes);

  // Short names for i64 arithmetic.
  Value plus(Value x, int64_t y) { return k.add(x, k.i64Constant(y)); }
  Value times(Value x, int64_t y) { return k.mul(x, k.i64Constant(y)); }
  Value atMost(Value x, int64_t y) { return k.min(x, k.i64Constant(y)); }
  Value roundUp(Value x, int64_t powerOfTwo);

  // Elements in scratch.
  Value at(Value pointer, Value offset) {
    return k.element(pointer, fullType, offset);
  }
  Value at(Value pointer, int64_t offset) {
    return k.element(pointer, fullType, offset);
  }
  Value loadVector(Value pointer) { return k.loadVector(pointer, fullType); }

  // Elements of a tensor.
  Value inTensor(Value pointer, Value offset) {
    return k.element(pointer, shape.elementType, offset);
  }
  Value inTensor(Value pointer, int64_t offset) {
    return k.element(pointer, shape.elementType, offset);
  }
  Value loadTensor(Value pointer, Value mask = {}) {
    return k.loadWide(pointer, shape.elementType, mask);
  }
  void storeTensor(Value vector, Value pointer, Value mask = {}) {
    k.storeRounded(vector, pointer, shape.elementType, mask);
  }

private:
  KernelBuilder &k;
  const AttentionShape &shape;
  mlir::Type fullType;
  int64_t padded;
  llvm::SmallVector<ColumnChunk> chunks;
  Value randomKey, randomStep, firstSequence;
};

} // namespace kiln::cpu

#endif // KILN_LIB_TARGET_CPU_ATTENTIONTILES_H
