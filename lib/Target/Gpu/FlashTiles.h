//===- FlashTiles.h - Attention on tensor cores -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the kernels for bf16 are made of. A block of four warps owns some rows
// (of queries, or of keys) of one head, and streams tiles of the other side's
// rows through shared memory. Each warp owns 16 rows, or two groups of 16, and
// keeps them in registers as `a` of products (TensorCore.h):
//
//   scores       own b^T, with rows of a tile as the columns of the result
//   addMatmul   sums + w b, w of own rows by rows of the tile, in registers
//
// A tile is row-major with 8 elements of padding: rows at one column then lie
// in different banks, eight at a time, and every address of a thread is a
// constant away from its first. There are two stages, so that the next tile is
// on its way while one is worked on, with one barrier for each.
//
// Rows past the end are zeros in tiles, and repeat the last one among own rows,
// where they change nobody else's results.
//
// Which rows a lane has of 16: g and g + 8, in sums and scores, with columns
// 8 n + 2 t and the next of every n. A `row` below counts a lane's own rows,
// two per group.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_FLASHTILES_H
#define KILN_LIB_TARGET_GPU_FLASHTILES_H

#include "TensorCore.h"

namespace kiln::gpu {

/// A matrix that a warp holds: 16 rows per group, 8 columns per tile.
struct WarpSums {
  int64_t groups = 0, tiles = 0;
  llvm::SmallVector<mlir::Value> values; ///< (group * tiles + tile) * 4 + i

  FourValues get(int64_t group, int64_t tile) const;
  void set(int64_t group, int64_t tile, const FourValues &four);
  /// Of lane's row `row`, element `i` of the two in tile `tile`.
  mlir::Value &at(int64_t row, int64_t tile, int64_t i) {
    return values[((row / 2) * tiles + tile) * 4 + row % 2 * 2 + i];
  }
};

/// Rows that a warp owns, as `a` of products.
struct OwnRows {
  int64_t groups = 0;
  llvm::SmallVector<mlir::Value> words; ///< (group * steps + step) * 4 + i
};

/// Of a thread, all i64.
struct ThreadNumbers {
  mlir::Value thread, warp, lane;
  mlir::Value g, t; ///< lane / 4, lane % 4
};

class FlashTiles : public ThreadNumbers {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;

  static constexpr int64_t kWarps = 4;
  static constexpr int64_t kThreads = kWarps * kWarp;
  static constexpr int64_t kGroupRows = 16; ///< of an `a`
  /// Own rows of a block, with one group for each warp.
  static constexpr int64_t kBlockRows = kWarps * kGroupRows;
  static constexpr int64_t kColumns = 8; ///< of a product
  static constexpr int64_t kPair = 2;    ///< elements of a word
  /// Keys of one block of random words.
  static constexpr int64_t kRandomKeys = 64;

  FlashTiles(GpuBuilder &k, const AttentionShape &shape, Alignments alignments);

  void setHead(Value sequence, Value head);
  Value sequence() const { return currentSequence; }
  Value head() const { return currentHead; }

  /// Rows of one head of one sequence in an argument.
  struct HeadRows {
    Value first; ///< Its first element.
    int64_t stride;
    int64_t width; ///< of accesses, in elements
  };
  HeadRows rows(unsigned arg, int64_t stride, Value head) const;

  //===--------------------------------------------------------------------===//
  // Own rows
  //===--------------------------------------------------------------------===//

  /// Own row `row` of this lane, where the block's rows start at `first`.
  Value ownRow(Value first, int64_t row, int64_t groups) const;
  /// The same, or the last one that exists.
  Value existing(Value row) const;

  OwnRows loadOwn(const HeadRows &from, Value first, int64_t groups);
  /// Stores own rows, those that exist, each times its factor.
  void storeOwn(WarpSums sums, const Values &factors, const HeadRows &to,
                Value first);
  /// Combines what the four lanes of each row have.
  Value acrossRow(Value x, llvm::function_ref<Value(Value, Value)> combine);

  //===--------------------------------------------------------------------===//
  // Tiles in shared memory
  //===--------------------------------------------------------------------===//

  int64_t pitch() const { return shape.headDim + kColumns; }
  int64_t tileBytes(int64_t rows) const { return rows * pitch() * 2; }

  /// Copies `count` rows from `first` on into the tile at `to`.
  void fetch(const HeadRows &from, Value first, int64_t count, Value to);

  /// Walks the tiles [first, last), of which those from `middle` on are the
  /// second kind. `fetch` begins the copies of a tile to a stage (0 or 1, i64),
  /// `work` does the rest. With `savesRegisters`, what both make of `thread` is
  /// computed anew for every tile.
  using Fetch = llvm::function_ref<void(Value tile, Value stage)>;
  using Work = llvm::function_ref<Values(
      Value tile, Value stage, bool isSecondKind, mlir::ValueRange carried)>;
  Values stream(Value first, Value middle, Value last, Values initial,
                Fetch fetch, Work work, bool savesRegisters = false);

  //===--------------------------------------------------------------------===//
  // Matmuls
  //===--------------------------------------------------------------------===//

  WarpSums zeros(int64_t groups, int64_t columns) const;
  /// own rows^T, for `count` rows of a tile from the address `rows` on.
  WarpSums scores(const OwnRows &own, Value rows, int64_t count);
  /// sums + weights * rows. Weights are rounded to bf16.
  void addMatmul(WarpSums &sums, const WarpSums &weights, Value rows);

  //===--------------------------------------------------------------------===//
  // Masks
  //===--------------------------------------------------------------------===//

  /// The tiles of keys, [0, end), that a block of queries sees; those before
  /// `masked` whole.
  struct TileRange {
    Value masked, end;
  };
  TileRange seenKeys(Value firstQuery, int64_t queries, int64_t keys) const;
  /// Of the `keys` keys from `firstKey` on, how many the warp's own queries
  /// see: none of them sees those behind.
  Value seenByWarp(Value firstQuery, int64_t groups, Value firstKey,
                   int64_t keys) const;
  /// Of the `queries` queries from `firstQuery` on, how many come before the
  /// first that sees one of the warp's own keys.
  Value blindToWarp(Value firstKey, int64_t groups, Value firstQuery,
                    int64_t queries) const;
  /// Whether `query` sees the lane's columns of `tiles` tiles of scores with
  /// keys from `firstKey` on (i1), (tile * 2 + i).
  Values seenBy(Value query, Value firstKey, int64_t tiles) const;
  /// Whether `key` is seen by the lane's columns of `tiles` tiles of scores
  /// with queries from `firstQuery` on.
  Values seesKey(Value key, Value firstQuery, int64_t tiles) const;

  //===--------------------------------------------------------------------===//
  // Dropout
  //===--------------------------------------------------------------------===//

  /// What random numbers depend on: the op's key, and what `rng` points to.
  void setRandom(Value rng, Value key);
  /// 64 bits for each of `count` queries, at `to` in shared memory: which keys
  /// are dropped, of a block of 64 that starts at `firstKey` or before.
  void makeMask(Value firstQuery, int64_t count, Value firstKey, Value to);
  static int64_t maskBytes(int64_t queries) { return queries * 8; }
  /// Whether the lane's columns of scores with `count` keys (16, 32, 64) from
  /// `firstKey` on are dropped (i1), (tile * 2 + i), by its own row `row` of
  /// the queries that `mask` is about.
  Values droppedBy(Value mask, int64_t row, int64_t groups, Value firstKey,
                   int64_t count);
  /// Whether the lane's own keys are dropped by its two queries from the
  /// `query`-th on, (row * 2 + i). `masks`: those of `count` queries, block of
  /// 64 own keys by block.
  Values droppedKeys(Value masks, int64_t groups, int64_t count, Value query);
  /// What kept probabilities are multiplied with.
  double keptFactor() const { return 1 / (1 - shape.dropout); }

  // Short names.
  Value plus(Value x, int64_t y) const { return k.add(x, k.i64Constant(y)); }
  Value times(Value x, int64_t y) const { return k.mul(x, k.i64Constant(y)); }
  Value bytesAt(Value pointer, Value offset) const;
  Value bytesAt(Value pointer, int64_t offset) const;
  Value narrow(Value x) const; ///< i64 to i32

private:
  Value lowBits(Value x, int64_t count) const;
  Value isBitSet(Value word, int64_t bit) const;
  void setNumbers(Value newThread);
  /// The thread's number in a way that compilers do not see through: what
  /// follows from it is computed anew, instead of staying in registers.
  Value renewedThread();
  mlir::Type bf16() const { return k.b.getBF16Type(); }

  GpuBuilder &k;
  const AttentionShape &shape;
  Alignments alignments;
  Value currentSequence, currentHead;
  /// Of this lane, in bytes from a tile's first: its row of four matrices that
  /// are 16 rows by 16 columns, as columns of b and as rows of it.
  Value columnsOffset, rowsOffset;
  Value rngState, opKey;
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_FLASHTILES_H
