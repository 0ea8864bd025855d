//===- FlashBackward.h - Gradients of attention of bf16 ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There are two kinds of units, each a block. One owns some keys of a key head,
// streams the queries of the group's heads that see them, and has k, v, dk and
// dv in registers. The other owns some queries of a head, streams keys, and has
// q, dout and dq. Both compute anew
//
//   p  = 2^(c q k^T - lse log2(e))   dp = dout v^T   ds = p (dp - D)
//
// with c = scale log2(e) and D = rowsum(dout * o), the former transposed, with
// keys as rows, so that p and ds are where products take them from:
//
//   dv += p^T dout   dk += ds^T q   |   dq += ds k
//
// p and ds are rounded to bf16. dk and dq are multiplied with the scale in the
// end. Every result has one owner, which adds up in order.
//
// With dropout, p is replaced by its dropped values in dv and dp by its own in
// ds; D needs no change, for o holds the dropped values already. The factor of
// what is kept is left to the end in dv.
//
// Units go through the sequences in order, within one from those that see much
// to those that see little.
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
  /// Returns the number of units.
  int64_t emit();

private:
  using Value = mlir::Value;
  using Values = FlashTiles::Values;
  using HeadRows = FlashTiles::HeadRows;

  /// As many as shared memory and registers have room for.
  struct Sizes {
    int64_t keyGroups;       ///< of 16 own keys, of a warp
    int64_t streamedQueries; ///< of a tile
    int64_t queriesAtOnce;   ///< of a tile, in registers
    int64_t queryGroups;     ///< of 16 own queries, of a warp
    int64_t streamedKeys;    ///< of a tile
    int64_t keysAtOnce;      ///< of a tile, in registers
    int64_t ownKeys() const { return keyGroups * FlashTiles::kBlockRows; }
    int64_t ownQueries() const { return queryGroups * FlashTiles::kBlockRows; }
  };
  static Sizes chooseSizes(const AttentionShape &shape);

  /// Of a query head.
  struct QueryHead {
    HeadRows q, o, dout;
    Value lse; ///< of its first query
  };
  QueryHead queryHead(Value head);
  bool drops() const { return shape.dropout > 0; }
  /// p of one score.
  Value power(Value score, Value minusLse);
  /// dp - D, of dp that is dropped or not (null: there is no dropout).
  Value difference(Value dp, Value minusD, Value isDropped);

  void ownKeys(Value unit);
  int64_t queryStageBytes() const;
  void fetchQueries(const QueryHead &from, Value firstKey, Value tile,
                    Value stage);
  /// Puts -D of a tile's queries into shared memory.
  void sumTile(Value o, Value dout);
  Value minusSums();
  /// dv and dk after a tile of queries, `carried` before.
  Values addQueries(const OwnRows &keys, const OwnRows &values, Value firstKey,
                    Value tile, Value stage, bool isMasked,
                    mlir::ValueRange carried);

  void ownQueries(Value unit);
  int64_t keyStageBytes() const;
  /// -D, by row of the lane.
  Values ownSums(const OwnRows &dout, const HeadRows &o, Value firstQuery);
  Values addKeys(const OwnRows &q, const OwnRows &dout, const Values &minusD,
                 const Values &minusLse, Value firstQuery, Value tile,
                 Value stage, bool isMasked, mlir::ValueRange carried);

  /// Part of a stage, from a byte on.
  Value inStage(Value stage, int64_t stageBytes, int64_t offset);

  const AttentionGradShape &shape;
  Sizes sizes;
  GpuBuilder &k;
  FlashTiles tiles;
  int64_t group; ///< query heads of a key head
  unsigned dqArg;
  Value shared;
  Value scale, factor; ///< scale and c
  Value minusLog2E;
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_FLASHBACKWARD_H
