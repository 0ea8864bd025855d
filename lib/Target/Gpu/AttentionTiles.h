//===- AttentionTiles.h - What attention kernels are made of ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of 16x16 threads works on a block of queries and a tile of keys of
// one head. Thread (ty, tx) holds the scores of queries R*ty ... R*ty + R-1 and
// keys tx, tx + 16, ...: reductions along a query's keys are sums in one thread
// followed by shuffles of 16 lanes, which is the order of the cpu target, and
// one Philox counter gives the random words of its keys in a block of 64.
//
// Matmuls run over chunks of the head dimension that are staged in shared
// memory, so any head dimension will do:
//
//   a b^T    rows of both by the same columns: `products`
//   w b      w a tile of scores in shared memory, b a chunk of rows
//   w^T b    the same, summed over w's rows
//
// A thread adds up R rows and W columns of the latter two per chunk. Every sum
// is one chain of fma in ascending order, as on the cpu. So the results are
// the cpu kernels', bit for bit (but for the sign of zeros, and NaN).
//
// Rows of bf16 are widened on their way to shared memory, which is f32 as all
// arithmetic is.
//
// What does not exist: rows past the end repeat the last one, columns past the
// head dimension are zeros, scores of keys that a query does not see are
// masked.
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
  /// Keys of one block of random words.
  static constexpr int64_t kRandomKeys = 64;

  /// Rows of one head of one sequence in an argument.
  struct HeadRows {
    Value first; ///< Its first element.
    int64_t stride;
    int64_t width; ///< of accesses
  };

  /// The largest block of queries, at most 64, that fits with tiles of `keys`
  /// keys, and the chunks that go with it.
  struct Sizes {
    int64_t queries = 0, keys = 0;
    int64_t dotColumns = 0; ///< of a chunk of `products`
    int64_t columns = 0;    ///< of a chunk of the other two
    int64_t chunkElements() const;
    int64_t tileElements() const { return queries * tilePitch(); }
    int64_t tilePitch() const { return keys + 4; }
  };
  /// `queries` is 0 if none fits.
  static Sizes chooseSizes(const AttentionShape &shape, int64_t keys);

  AttentionTiles(GpuBuilder &k, const AttentionShape &shape, const Sizes &sizes,
                 Alignments alignments);

  /// Reads what random numbers depend on; once, before they are needed.
  void prepareDropout(Value rng, Value key);
  void setHead(Value sequence, Value head);

  HeadRows rows(unsigned arg, int64_t stride, Value head) const;

  /// Queries of a thread, and keys.
  int64_t rowsPerThread() const { return sizes.queries / kSide; }
  int64_t keysPerThread() const { return sizes.keys / kSide; }
  /// Query `i` of this thread in the block that starts at `first`.
  Value query(Value first, int64_t i) const;
  Value existingQuery(Value first, int64_t i) const;

  /// Scores, (i, j) at i*keysPerThread() + j: (factor a) b^T.
  Values products(const HeadRows &a, Value firstA, Value factor,
                  const HeadRows &b, Value firstB);
  /// By query, the sum of x*y over the head dimension.
  Values rowSums(const HeadRows &x, const HeadRows &y, Value first);
  /// Combines all scores of each query.
  Values reduce(const Values &scores,
                llvm::function_ref<Value(Value, Value)> combine);
  /// Which scores exist (i1), or nothing if all do.
  Values seen(Value firstQuery, Value firstKey) const;
  /// Which scores are dropped (i1).
  Values dropped(Value firstQuery, Value firstKey);

  /// Makes the scores the tile in shared memory.
  void setTile(const Values &scores);

  /// Sums by chunk, row and column of a thread: zeros.
  Values noSums(int64_t rows) const;
  /// sums + tile * b, for rowsPerThread() rows.
  Values addMatmul(const HeadRows &b, Value firstB, Values sums);
  /// sums + tile^T * (factor b), for keysPerThread() rows: keys from
  /// keysPerThread() * ty on.
  Values addTransposed(const HeadRows &b, Value firstB, Value factor,
                       Values sums);
  /// Stores rows that start at `first` + `rows` * ty.
  void storeSums(const Values &sums, int64_t rows, const HeadRows &to,
                 Value first);

  /// What kept probabilities are multiplied with.
  double keptFactor() const { return 1 / (1 - shape.dropout); }
  Value across() const { return tx; }

  /// What is computed with, and what rows have in memory.
  mlir::Type type() const { return fullPrecision(shape.elementType); }
  mlir::Type storedType() const { return shape.elementType; }

  // Short names for i64 arithmetic.
  Value plus(Value x, int64_t y) const { return k.add(x, k.i64Constant(y)); }
  Value times(Value x, int64_t y) const { return k.mul(x, k.i64Constant(y)); }
  Value atMost(Value x, int64_t y) const { return k.min(x, k.i64Constant(y)); }
  // Places of elements that are computed with, and of a head's rows.
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
  /// Copies `count` rows by `columns` columns to shared memory.
  void stage(const HeadRows &from, Value firstRow, int64_t count,
             Value firstColumn, int64_t columns, Value to, int64_t pitch,
             Value factor);
  /// Adds the products with a staged chunk of `count` rows.
  Values addChunk(bool transposed, int64_t count, int64_t rows, Values sums);
  Values add(bool transposed, const HeadRows &b, Value firstB, Value factor,
             int64_t rows, Values sums);

  GpuBuilder &k;
  const AttentionShape &shape;
  Sizes sizes;
  Alignments alignments;
  Value tx, ty;
  Value chunks, tile; ///< shared memory
  Value sequence, head;
  Value randomKey, randomStep, firstSequence;
};

/// Says that this target has no attention of the shape's element type. Returns
/// whether it has.
bool checkAttentionType(GpuBuilder &k, const AttentionShape &shape);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ATTENTIONTILES_H
