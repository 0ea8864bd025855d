//===- AttentionTiles.h - Tile operations of attention kernels --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All seven matmuls of attention use one register tile:
//
//   c(r, j) += sum over i of a(r, i) * b(i, j), r < rows, j < 16 * vectors
//
// Elements of `a` are broadcast from memory with any strides, so a matmul with
// P^T reads P directly; rows of `b` are contiguous. Operands are first packed
// into scratch memory, because each tile is read many times and the row strides
// of tensors are large, so that the rows of a tile often map to the same few
// cache sets. Scratch has full precision: packing widens narrow elements such
// as bf16, and unpacking rounds to their type.
//
// Scores are computed for kRowBlock queries by `kvTile` keys at a time. The
// matmuls have no branches for out-of-range elements:
// - Queries past the end of the sequence repeat the last query. Their results
//   are not stored, and sums over queries exclude them.
// - Keys that a query does not attend to are masked in the score tile. Vectors
//   of 16 keys that no query of a strip attends to are skipped, and sums over
//   keys end at the last key that some query of the strip attends to.
// - Columns past the head dimension are packed as zeros.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_CPU_ATTENTIONTILES_H
#define KILN_LIB_TARGET_CPU_ATTENTIONTILES_H

#include "KernelBuilder.h"
#include "kiln/Target/Cpu/Kernels.h"

namespace kiln::cpu {

/// Queries per block.
constexpr int64_t kRowBlock = 64;
/// Maximum number of rows per strip. A strip consists of the queries of one
/// register tile; their number is a power of two.
constexpr int64_t kMaxStripRows = 8;

/// A matrix in memory: element (r, c) is at pointer + r*rowStride +
/// c*columnStride, with strides in elements.
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

/// Assigns byte offsets in the scratch memory of a kernel.
class ScratchLayout {
public:
  /// Allocates `bytes` bytes and returns their offset.
  int64_t allocate(int64_t bytes);
  int64_t size() const { return bytes; }

private:
  int64_t bytes = 0;
};

/// Emits the tile operations of one kernel.
class AttentionTiles {
public:
  using Value = mlir::Value;

  AttentionTiles(KernelBuilder &k, const AttentionShape &shape);

  /// Returns the rows per strip for a tile with `vectors` vectors per row: as
  /// many as registers hold.
  int64_t stripRows(int64_t vectors) const;
  /// The head dimension in chunks of nearly equal size.
  llvm::ArrayRef<ColumnChunk> columnChunks() const { return chunks; }
  /// Element type in scratch memory and of all arithmetic.
  mlir::Type type() const { return fullType; }
  /// The head dimension rounded up to whole vectors: the length of packed rows.
  int64_t paddedDim() const { return padded; }
  /// Returns a mask of the lanes of vector `v` of a row that are within the
  /// head dimension. Returns null if these are all lanes.
  Value columnMask(int64_t v);

  /// Returns the number of keys that query `row` attends to; rows past the end
  /// count as the last row.
  Value keysSeenBy(Value row);
  /// Returns min(row, length - 1).
  Value existingRow(Value row);

  /// Returns c(r, j) + the sum of a(r, i) * b(i, j) over i in [low, high).
  Tile multiplyAdd(const Matrix &a, const Matrix &b, Value low, Value high,
                   Tile c);

  /// Adds a*b to the matrix `sum` in memory. `c` specifies the shape of the
  /// tile.
  void addMatmul(const Matrix &a, const Matrix &b, Value low, Value high,
                 const Matrix &sum, Tile c);

  /// Copies rows [0, count) of the head to packed rows. Rows from index
  /// `existing` on are copies of row `existing` - 1.
  void packRows(Value source, int64_t stride, Value count, Value existing,
                Value packed, Value factor = {});
  /// Computes packed(c, j) = source(min(j, count - 1), c) for all columns c of
  /// the head and keys j in [0, n), where n is `count` rounded up to whole
  /// vectors. `packed` is a matrix of `kvTile` columns.
  void packTransposed(Value source, int64_t stride, Value count, Value packed);
  /// Copies packed rows [0, count) to a tensor.
  void unpackRows(Value packed, Value count, Value destination, int64_t stride,
                  Value factor = {});

  /// Prefetches the row of a result that is written a few rows after `row`.
  /// Stores wait for their cache lines in order, and rows of a tensor are too
  /// short for the hardware prefetcher. Prefetching past the end of the tensor
  /// has no effect.
  void prefetchStores(Value row, int64_t stride);

  /// Emits `body` for the score tile of a strip. Query r of the strip attends
  /// to the first min(seen[r], kvTile) keys of the tile. `seen` is ascending.
  /// Emits several variants of `body` and the branches that select one of them:
  /// - A variant without a mask, for tiles in which every query of the strip
  ///   attends to all keys.
  /// - Variants with a mask, which process only the first `vectors` vectors of
  ///   16 keys. The number of vectors differs between these variants.
  void forSeenKeys(llvm::ArrayRef<Value> seen,
                   llvm::function_ref<void(int64_t vectors, bool masked)> body);
  /// Returns a mask of the lanes of vector `v` whose keys are among the first
  /// `seen` keys of the tile.
  Value keyMask(Value seen, int64_t v);

  /// Reduces the lanes of each row; the number of rows is a power of two. Lane
  /// l of the result belongs to row l / (16 / rows), and all lanes of a row
  /// have the same value.
  Value reduceRows(llvm::ArrayRef<Value> rows,
                   llvm::function_ref<Value(Value, Value)> combine);
  /// Returns a vector with the value of row `row` in all lanes, where `reduced`
  /// is the result of reduceRows() for `rows` rows.
  Value rowValue(Value reduced, int64_t row, int64_t rows);

  /// Loads the key of the random numbers; called once, before forDropped().
  void prepareDropout(Value rng, Value key);
  /// Calls `body` for every query in [first, first + rows) and every block of
  /// 64 keys in the tile at `firstKey`, if the query attends to a key of the
  /// block. Passes the offset of the query from `first`, the offset of the
  /// block from `firstKey`, and one mask of dropped keys per vector.
  void forDropped(Value sequence, Value head, Value first, Value rows,
                  Value firstKey,
                  llvm::function_ref<void(Value row, Value key,
                                          llvm::ArrayRef<Value> dropped)>
                      body);
  /// Returns the factor by which probabilities that are not dropped are
  /// multiplied.
  double keptFactor() const { return 1 / (1 - shape.dropout); }

  /// Returns the address `bytes` after the start of the scratch memory.
  Value scratch(int64_t bytes);

  // Short names for i64 arithmetic.
  Value plus(Value x, int64_t y) { return k.add(x, k.i64Constant(y)); }
  Value times(Value x, int64_t y) { return k.mul(x, k.i64Constant(y)); }
  Value atMost(Value x, int64_t y) { return k.min(x, k.i64Constant(y)); }
  Value roundUp(Value x, int64_t powerOfTwo);

  // Elements in scratch memory.
  Value at(Value pointer, Value offset) {
    return k.element(pointer, fullType, offset);
  }
  Value at(Value pointer, int64_t offset) {
    return k.element(pointer, fullType, offset);
  }
  Value loadVector(Value pointer) { return k.loadVector(pointer, fullType); }

  // Addresses, loads and stores of elements of a tensor.
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
  Value firstHead; ///< Null unless shape.dividesHeads is true.
};

} // namespace kiln::cpu

#endif // KILN_LIB_TARGET_CPU_ATTENTIONTILES_H
