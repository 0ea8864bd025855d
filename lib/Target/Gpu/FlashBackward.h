//===- FlashBackward.h - Gradients of attention in bf16 ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   attention_grad(q, k, v, o, lse, dout, dq, dk, dv):
//     if (own keys)                      // some keys of one key head
//       for (head : query heads of the key head)
//         for (tile : tiles of queries) {
//           dv += p^T dout; dk += ds^T q;
//         }
//     else                               // some queries of one head
//       for (tile : tiles of keys)
//         dq += ds k;
//
//     // Recomputed for each tile, with c = scale log2(e):
//     //   p = 2^(c q k^T - lse log2(e)); dp = dout v^T; ds = p (dp - D);
//     //   D = rowsum(dout * o)
//
// Launch: sequences * (kvHeads * ceil(length / own keys) + heads * ceil(length
// / own queries)) blocks of 128 threads.
// Shared: two stages (buffers) for tiles of the rows that a block does not own;
// see FlashKeyGrads.cpp and FlashQueryGrads.cpp.
// Bytes: own rows are read once and gradients are written once; each block also
// reads the other rows that it needs.
//
// Blocks that own keys keep k, v, dk and dv in registers and compute p and ds
// transposed, with keys as rows; blocks that own queries keep q, dout and dq.
// The matmuls thus read p and ds directly from registers. p and ds are rounded
// to the type of q, bf16 or f16. dk and dq are multiplied by the scale at the
// end. Every result is computed by one block, which adds its terms in order.
//
// With dropout, dv is computed from p after dropout, and ds from dp after
// dropout. D is unchanged, because o is already the result after dropout. The
// factor 1 / (1 - dropout) is applied to dv at the end.
//
// Blocks are ordered by sequence. Within a sequence, the blocks that process
// the most rows come first.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_FLASHBACKWARD_H
#define KILN_LIB_TARGET_GPU_FLASHBACKWARD_H

#include "FlashTiles.h"

namespace kiln::gpu {

class FlashBackward {
public:
  FlashBackward(GpuBuilder &k, const AttentionGradShape &shape,
                Alignments alignments);
  /// Returns the number of units of work: thread blocks.
  int64_t emit();

private:
  using Value = mlir::Value;
  using Values = FlashTiles::Values;
  using HeadRows = FlashTiles::HeadRows;

  /// Sizes of groups and tiles, limited by shared memory and registers. The own
  /// keys or queries of a thread block are those whose gradients it computes.
  struct Sizes {
    int64_t keyGroups;       ///< Groups of 16 own keys per warp.
    int64_t streamedQueries; ///< Queries per tile.
    int64_t queriesAtOnce;   ///< Queries whose scores are in registers.
    int64_t queryGroups;     ///< Groups of 16 own queries per warp.
    int64_t streamedKeys;    ///< Keys per tile.
    int64_t keysAtOnce;      ///< Keys whose scores are in registers.
    int64_t ownKeys() const { return keyGroups * FlashTiles::kBlockRows; }
    int64_t ownQueries() const { return queryGroups * FlashTiles::kBlockRows; }
  };
  static Sizes chooseSizes(const AttentionShape &shape);

  /// The inputs of a query head.
  struct QueryHead {
    HeadRows q, o, dout;
    Value lse; ///< Address of the lse of the first query.
  };
  QueryHead queryHead(Value head);
  bool drops() const { return shape.dropout > 0; }
  /// Returns the probability p for one score.
  Value power(Value score, Value minusLse);
  /// Returns dp - D, where D = rowsum(dout * o). If `isDropped` is not null,
  /// dropout is applied to dp first.
  Value difference(Value dp, Value minusD, Value isDropped);

  void ownKeys(Value unit);
  int64_t queryStageBytes() const;
  void fetchQueries(const QueryHead &from, Value firstKey, Value tile,
                    Value stage);
  /// Computes -D = -rowsum(dout * o) of the queries of a tile and stores the
  /// results in shared memory, at minusSums(). `o` and `dout` are the addresses
  /// of the tile's rows.
  void sumTile(Value o, Value dout);
  Value minusSums();
  /// Returns dv and dk after a tile of queries. `carried` contains dv and dk
  /// before the tile.
  Values addQueries(const OwnRows &keys, const OwnRows &values, Value firstKey,
                    Value tile, Value stage, bool isMasked,
                    mlir::ValueRange carried);

  void ownQueries(Value unit);
  int64_t keyStageBytes() const;
  /// Returns -D = -rowsum(dout * o) of the queries of this lane, indexed by the
  /// lane's row.
  Values ownSums(const OwnRows &dout, const HeadRows &o, Value firstQuery);
  Values addKeys(const OwnRows &q, const OwnRows &dout, const Values &minusD,
                 const Values &minusLse, Value firstQuery, Value tile,
                 Value stage, bool isMasked, mlir::ValueRange carried);

  /// Returns the address of byte `offset` of a stage, a buffer for one tile.
  Value inStage(Value stage, int64_t stageBytes, int64_t offset);

  const AttentionGradShape &shape;
  Sizes sizes;
  GpuBuilder &k;
  FlashTiles tiles;
  int64_t group; ///< Query heads per key head.
  unsigned dqArg;
  Value shared;
  Value scale, factor; ///< scale, and c = scale log2(e).
  Value minusLog2E;
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_FLASHBACKWARD_H
