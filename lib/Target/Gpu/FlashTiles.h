//===- FlashTiles.h - Tile operations of attention on tensor cores --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread block of four warps owns some rows of one head, either queries or
// keys. It streams the rows of the other kind through shared memory in tiles.
// Each warp owns 16 rows, or two groups of 16, and keeps them in registers as
// `a` fragments of MMAs (TensorCore.h):
//
//   scores      The product of the own rows and b^T, where b is a tile. It has
//               one row per own row and one column per row of the tile.
//   addMatmul   sums + w b, where b is a tile. w is in registers and has one
//               row per own row and one column per row of the tile.
//
// A tile is row-major with 8 elements of padding per row. The elements of eight
// rows at one column are then in different banks, and all addresses of a thread
// have constant offsets from its first address. There are two stages (buffers),
// so that the next tile is loaded while the current tile is processed. One
// barrier per tile suffices.
//
// Rows past the end of the sequence are zero in tiles. Among the rows that a
// thread block owns, rows past the end are copies of the last row of the
// sequence; they do not affect the results of other rows.
//
// A lane holds the elements of sums and scores in rows g and g + 8 of each
// group of 16 rows, and in columns 8 n + 2 t and 8 n + 2 t + 1 for every n,
// where g = lane / 4 and t = lane % 4. Below, `row` numbers the rows that a
// lane holds, two per group.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_FLASHTILES_H
#define KILN_LIB_TARGET_GPU_FLASHTILES_H

#include "TensorCore.h"

namespace kiln::gpu {

/// A matrix in the registers of a warp: 16 rows per group, 8 columns per tile.
struct WarpSums {
  int64_t groups = 0, tiles = 0;
  /// A lane has four elements of each tile of each group. Element i is at index
  /// (group * tiles + tile) * 4 + i.
  llvm::SmallVector<mlir::Value> values;

  FourValues get(int64_t group, int64_t tile) const;
  void set(int64_t group, int64_t tile, const FourValues &four);
  /// Returns element `i` (0 or 1) of the lane's row `row` in tile `tile`.
  mlir::Value &at(int64_t row, int64_t tile, int64_t i) {
    return values[((row / 2) * tiles + tile) * 4 + row % 2 * 2 + i];
  }
};

/// The rows that a warp owns, as fragments of the operand `a` of MMAs.
struct OwnRows {
  int64_t groups = 0;
  /// A lane has four words for each group and each step of 16 columns. Word i
  /// is at index (group * steps + step) * 4 + i.
  llvm::SmallVector<mlir::Value> words;
};

/// Indices of a thread, all i64.
struct ThreadNumbers {
  mlir::Value thread, warp, lane;
  mlir::Value g, t; ///< lane / 4 and lane % 4.
};

class FlashTiles : public ThreadNumbers {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;

  static constexpr int64_t kWarps = 4;
  static constexpr int64_t kThreads = kWarps * kWarp;
  static constexpr int64_t kGroupRows = 16; ///< Rows of an `a` fragment.
  /// Rows that a thread block owns if each of its warps owns one group of rows.
  static constexpr int64_t kBlockRows = kWarps * kGroupRows;
  static constexpr int64_t kColumns = 8; ///< Columns of an MMA.
  static constexpr int64_t kPair = 2;    ///< Elements per word.
  /// Dropout needs one random word per query and key. For a given query, 16
  /// Philox counters, which give four words each, serve this number of
  /// consecutive keys.
  static constexpr int64_t kRandomKeys = 64;

  FlashTiles(GpuBuilder &k, const AttentionShape &shape, Alignments alignments);

  void setHead(Value sequence, Value head);
  Value sequence() const { return currentSequence; }
  Value head() const { return currentHead; }

  /// The rows of one head of one sequence in an argument.
  struct HeadRows {
    Value first; ///< Address of the first element.
    int64_t stride;
    int64_t width; ///< Elements per access.
  };
  HeadRows rows(unsigned arg, int64_t stride, Value head) const;

  //===--------------------------------------------------------------------===//
  // Own rows
  //===--------------------------------------------------------------------===//

  /// Returns the index of this lane's row `row`, where `first` is the index of
  /// the first row that the thread block owns.
  Value ownRow(Value first, int64_t row, int64_t groups) const;
  /// Returns `row`, or the last row if `row` is past the end.
  Value existing(Value row) const;

  OwnRows loadOwn(const HeadRows &from, Value first, int64_t groups);
  /// Stores the rows of `sums` that are not past the end, each multiplied by
  /// its element of `factors`.
  void storeOwn(WarpSums sums, const Values &factors, const HeadRows &to,
                Value first);
  /// Reduces x over the four lanes that hold the same row.
  Value acrossRow(Value x, llvm::function_ref<Value(Value, Value)> combine);

  //===--------------------------------------------------------------------===//
  // Tiles in shared memory
  //===--------------------------------------------------------------------===//

  int64_t pitch() const { return shape.headDim + kColumns; }
  int64_t tileBytes(int64_t rows) const { return rows * pitch() * 2; }

  /// Copies `count` rows starting at `first` into the tile at `to`.
  void fetch(const HeadRows &from, Value first, int64_t count, Value to);

  /// Processes the tiles [first, last). `fetch` starts the copies of a tile to
  /// a stage (buffer 0 or 1, i64). `work` processes the tile; `isSecondKind` is
  /// true for the tiles from `middle` on. With `savesRegisters`, `fetch` and
  /// `work` recompute values derived from `thread` for every tile.
  using Fetch = llvm::function_ref<void(Value tile, Value stage)>;
  using Work = llvm::function_ref<Values(
      Value tile, Value stage, bool isSecondKind, mlir::ValueRange carried)>;
  Values stream(Value first, Value middle, Value last, Values initial,
                Fetch fetch, Work work, bool savesRegisters = false);

  //===--------------------------------------------------------------------===//
  // Matmuls
  //===--------------------------------------------------------------------===//

  WarpSums zeros(int64_t groups, int64_t columns) const;
  /// Returns own * rows^T for `count` rows of a tile starting at address
  /// `rows`.
  WarpSums scores(const OwnRows &own, Value rows, int64_t count);
  /// Computes sums += weights * rows. The weights are rounded to the element
  /// type, bf16 or f16.
  void addMatmul(WarpSums &sums, const WarpSums &weights, Value rows);

  //===--------------------------------------------------------------------===//
  // Masks
  //===--------------------------------------------------------------------===//

  /// The tiles of keys [0, end) that a block of queries attends to; all queries
  /// attend to all keys of the tiles before `masked`.
  struct TileRange {
    Value masked, end;
  };
  TileRange seenKeys(Value firstQuery, int64_t queries, int64_t keys) const;
  /// Consider the `keys` keys starting at `firstKey`. Returns the number of
  /// these keys to which at least one query of this warp attends.
  Value seenByWarp(Value firstQuery, int64_t groups, Value firstKey,
                   int64_t keys) const;
  /// Returns how many of the `queries` queries starting at `firstQuery` attend
  /// to no key of this warp. They precede the queries that attend to a key.
  Value blindToWarp(Value firstKey, int64_t groups, Value firstQuery,
                    int64_t queries) const;
  /// Returns, for each of the lane's columns in `tiles` tiles of scores, an i1
  /// that is true if `query` attends to the key of the column. Column i of a
  /// tile is at index tile * 2 + i. The keys start at `firstKey`.
  Values seenBy(Value query, Value firstKey, int64_t tiles) const;
  /// Returns, for each of the lane's columns in `tiles` tiles of scores, an i1
  /// that is true if the query of the column attends to `key`. The queries
  /// start at `firstQuery`.
  Values seesKey(Value key, Value firstQuery, int64_t tiles) const;

  //===--------------------------------------------------------------------===//
  // Dropout
  //===--------------------------------------------------------------------===//

  /// Sets the key of the op's random numbers and the pointer to the random
  /// state.
  void setRandom(Value rng, Value key);
  /// Stores 64 bits for each of `count` queries at address `to` in shared
  /// memory. The bits of a query indicate its dropped keys in the block of 64
  /// keys that contains `firstKey`.
  void makeMask(Value firstQuery, int64_t count, Value firstKey, Value to);
  static int64_t maskBytes(int64_t queries) { return queries * 8; }
  /// Returns, for each of the lane's columns of scores, an i1 that is true if
  /// row `row` of the lane's rows drops the key of the column. Column i of a
  /// tile is at index tile * 2 + i. The scores have `count` keys (16, 32 or 64)
  /// starting at `firstKey`. `mask` is the dropout mask of the lane's queries.
  Values droppedBy(Value mask, int64_t row, int64_t groups, Value firstKey,
                   int64_t count);
  /// Returns, for each key `row` of the lane's keys and each i in {0, 1}, an i1
  /// that is true if query `query` + 2 t + i drops the key, where t = lane % 4.
  /// The i1 is at index row * 2 + i. `masks` holds the masks of `count` queries
  /// for each block of 64 own keys.
  Values droppedKeys(Value masks, int64_t groups, int64_t count, Value query);
  /// Returns the factor by which dropout multiplies probabilities that are not
  /// dropped.
  double keptFactor() const { return 1 / (1 - shape.dropout); }

  // Short names.
  Value plus(Value x, int64_t y) const { return k.add(x, k.i64Constant(y)); }
  Value times(Value x, int64_t y) const { return k.mul(x, k.i64Constant(y)); }
  Value bytesAt(Value pointer, Value offset) const;
  Value bytesAt(Value pointer, int64_t offset) const;
  Value narrow(Value x) const; ///< i64 to i32.

private:
  Value lowBits(Value x, int64_t count) const;
  Value isBitSet(Value word, int64_t bit) const;
  void setNumbers(Value newThread);
  /// Returns the thread index through a shuffle, which compilers cannot
  /// simplify. Values derived from the result are therefore recomputed instead
  /// of kept in registers.
  Value renewedThread();
  mlir::Type stored() const { return shape.elementType; }

  GpuBuilder &k;
  const AttentionShape &shape;
  Alignments alignments;
  Value currentSequence, currentHead;
  /// Byte offset of the matrix row that this lane passes to loadMatrices() for
  /// 16 rows by 16 columns of a tile. `columnsOffset` applies if the rows of
  /// the tile are the columns of the MMA's operand b, and `rowsOffset` applies
  /// if they are the rows of b.
  Value columnsOffset, rowsOffset;
  Value rngState, opKey;
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_FLASHTILES_H
