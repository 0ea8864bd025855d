//===- AttentionTiles.h - Tile operations of attention kernels --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread block of 16x16 threads processes a block of queries and a tile of
// keys of one head. Thread (ty, tx) holds the scores of queries R*ty ... R*ty +
// R-1 and keys tx, tx + 16, ..., where R = rowsPerThread(). A reduction over
// the keys of a query combines first the values of each thread and then the
// values of 16 lanes, by shuffles, in the order of the CPU target. For dropout,
// one Philox counter gives four random words, which are for one query and the
// four keys that a thread has in a block of 64 keys.
//
// Matmuls process chunks of the head dimension that are staged in shared
// memory, so any head dimension is supported. There are three matmuls:
//
//   a b^T    products(): the same chunk of columns of a and b is staged
//   w b      w is a tile of scores in shared memory, b is a staged chunk
//   w^T b    likewise, summed over the rows of w
//
// In the latter two, a thread computes columnsPerThread() columns per chunk, of
// rowsPerThread() rows in w b and of keysPerThread() rows in w^T b. Every sum
// is one chain of fma in ascending order, as on the CPU. The results are
// bit-identical to those of the CPU kernels, except for the sign of zeros and
// for NaN.
//
// Rows of narrow floats such as bf16 are widened when they are copied to shared
// memory. Shared memory and arithmetic are f32.
//
// Out-of-range elements: rows past the end repeat the last row, columns past
// the head dimension are zero, and scores of keys that a query does not attend
// to are masked.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ATTENTIONTILES_H
#define KILN_LIB_TARGET_GPU_ATTENTIONTILES_H

#include "GpuBuilder.h"

namespace kiln::gpu {

class AttentionTiles {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;

  static constexpr int64_t kSide = 16;
  static constexpr int64_t kThreads = kSide * kSide;
  /// Dropout needs one random word per query and key. For a given query, 16
  /// Philox counters, which give four words each, serve this number of
  /// consecutive keys.
  static constexpr int64_t kRandomKeys = 64;

  /// The rows of one head of one sequence in an argument.
  struct HeadRows {
    Value first; ///< Address of the first element.
    int64_t stride;
    int64_t width; ///< Elements per access.
  };

  /// Sizes of the query block, the key tile and the staged chunks.
  /// chooseSizes() selects the largest query block, at most 64, that fits into
  /// shared memory.
  struct Sizes {
    int64_t queries = 0, keys = 0;
    int64_t dotColumns = 0; ///< Columns per chunk in `products`.
    int64_t columns = 0;    ///< Columns per chunk in the other matmuls.
    int64_t chunkElements() const;
    int64_t tileElements() const { return queries * tilePitch(); }
    int64_t tilePitch() const { return keys + 4; }
  };
  /// Returns sizes with `queries` = 0 if none fit into shared memory.
  static Sizes chooseSizes(const AttentionShape &shape, int64_t keys);

  AttentionTiles(GpuBuilder &k, const AttentionShape &shape, const Sizes &sizes,
                 Alignments alignments);

  /// Loads the state of the random numbers; called once, before dropped().
  void prepareDropout(Value rng, Value key);
  void setHead(Value sequence, Value head);

  HeadRows rows(unsigned arg, int64_t stride, Value head) const;

  /// Queries and keys per thread.
  int64_t rowsPerThread() const { return sizes.queries / kSide; }
  int64_t keysPerThread() const { return sizes.keys / kSide; }
  /// Returns the index of query `i` of this thread in the block of queries that
  /// starts at `first`. existingQuery() returns the index of the last query
  /// instead of an index past the end.
  Value query(Value first, int64_t i) const;
  Value existingQuery(Value first, int64_t i) const;

  /// Returns this thread's scores in (factor a) b^T. The score of query i and
  /// key j of the thread is at index i * keysPerThread() + j.
  Values products(const HeadRows &a, Value firstA, Value factor,
                  const HeadRows &b, Value firstB);
  /// Returns the sum of x*y over the head dimension for each query of this
  /// thread. `first` is the first query of the block.
  Values rowSums(const HeadRows &x, const HeadRows &y, Value first);
  /// Reduces the scores of each query over all keys of the tile.
  Values reduce(const Values &scores,
                llvm::function_ref<Value(Value, Value)> combine);
  /// Returns, for each score, an i1 that is true if the score is not masked.
  /// Returns an empty vector if no score is masked.
  Values seen(Value firstQuery, Value firstKey) const;
  /// Returns, for each score, an i1 that is true if the score is dropped.
  Values dropped(Value firstQuery, Value firstKey);

  /// Stores the scores as the tile in shared memory.
  void setTile(const Values &scores);

  /// Returns zeros as the initial sums. Sums are indexed by chunk, then by row
  /// and column of the thread.
  Values noSums(int64_t rows) const;
  /// Returns sums + tile * b for rowsPerThread() rows.
  Values addMatmul(const HeadRows &b, Value firstB, Values sums);
  /// Returns sums + tile^T * (factor b) for keysPerThread() rows, which are the
  /// keys starting at keysPerThread() * ty.
  Values addTransposed(const HeadRows &b, Value firstB, Value factor,
                       Values sums);
  /// Stores `rows` rows starting at `first` + `rows` * ty.
  void storeSums(const Values &sums, int64_t rows, const HeadRows &to,
                 Value first);

  /// Returns the factor by which probabilities that are not dropped are
  /// multiplied.
  double keptFactor() const { return 1 / (1 - shape.dropout); }
  Value across() const { return tx; }

  /// Types of the arithmetic and of rows in memory.
  mlir::Type type() const { return fullPrecision(shape.elementType); }
  mlir::Type storedType() const { return shape.elementType; }

  // Short names for i64 arithmetic.
  Value plus(Value x, int64_t y) const { return k.add(x, k.i64Constant(y)); }
  Value times(Value x, int64_t y) const { return k.mul(x, k.i64Constant(y)); }
  Value atMost(Value x, int64_t y) const { return k.min(x, k.i64Constant(y)); }
  // Return the address `offset` elements after `pointer`: at() counts elements
  // of type(), and inRows() counts elements of storedType().
  Value at(Value pointer, Value offset) const {
    return k.element(pointer, type(), offset);
  }
  Value at(Value pointer, int64_t offset) const {
    return k.element(pointer, type(), offset);
  }
  Value inRows(Value pointer, Value offset) const {
    return k.element(pointer, storedType(), offset);
  }
  Value inRows(Value pointer, int64_t offset) const {
    return k.element(pointer, storedType(), offset);
  }

private:
  int64_t chunkCount() const;
  int64_t columnsPerThread() const { return sizes.columns / kSide; }
  /// Copies `count` rows of `columns` columns to shared memory.
  void stage(const HeadRows &from, Value firstRow, int64_t count,
             Value firstColumn, int64_t columns, Value to, int64_t pitch,
             Value factor);
  /// Returns sums + w b or, if `transposed`, sums + w^T b, where w is the tile
  /// of scores and b is a staged chunk of `count` rows.
  Values addChunk(bool transposed, int64_t count, int64_t rows, Values sums);
  Values add(bool transposed, const HeadRows &b, Value firstB, Value factor,
             int64_t rows, Values sums);

  GpuBuilder &k;
  const AttentionShape &shape;
  Sizes sizes;
  Alignments alignments;
  Value tx, ty;
  Value chunks, tile; ///< In shared memory.
  Value sequence, head;
  Value randomKey, randomStep, firstSequence;
  Value firstHead; ///< Null unless shape.dividesHeads is true.
};

/// Returns true if this target supports attention with the element type of
/// `shape`; otherwise makes k.finish() report an error.
bool checkAttentionType(GpuBuilder &k, const AttentionShape &shape);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ATTENTIONTILES_H
