//===- SinkCasts.cpp - Sinking of casts into kernels ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In mixed precision, a bias is cast, broadcast over the rows, and then added
// to a matrix. The cast has only as many elements as a row, so it cannot be
// fused into the kernel of the addition, which has as many elements as the
// matrix. This pass moves the cast after the broadcast, so that the cast can be
// fused. The results do not change, because a broadcast only copies elements.
// A cast after it rounds them to the same values as a cast before it.
//
//===----------------------------------------------------------------------===//

#include "Precision.h"

using namespace mlir;
using namespace kiln;

void kiln::sinkCasts(Block &block) {
  SmallVector<BroadcastOp> broadcasts;
  for (auto broadcast : block.getOps<BroadcastOp>())
    if (familyOf(broadcast) == Family::Row)
      broadcasts.push_back(broadcast);
  for (BroadcastOp broadcast : broadcasts) {
    auto cast = broadcast.getX().getDefiningOp<CastOp>();
    auto isRepeated = [](Operation *user) {
      return isa<BroadcastOp>(user) && familyOf(user) == Family::Row;
    };
    if (!cast || !llvm::all_of(cast->getUsers(), isRepeated))
      continue;
    OpBuilder builder(broadcast);
    auto type = broadcast.getType();
    Value wide =
        BroadcastOp::create(builder, broadcast.getLoc(),
                            type.clone(cast.getX().getType().getElementType()),
                            cast.getX(), broadcast.getDims());
    broadcast.replaceAllUsesWith(
        CastOp::create(builder, cast.getLoc(), type, wide).getResult());
    broadcast.erase();
    if (cast->use_empty())
      cast.erase();
  }
}
